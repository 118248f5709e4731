"""The fixtures of the relay inventory show every row without a hub in between."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes.relay.server import RelayServer
from tests.relay_inventory.measure import ERAS, PROBES, Report, Way, measure_way


async def no_hub(upstream: RelayServer, path: str) -> tuple[str, str]:
    raise NotImplementedError


@pytest.mark.parametrize("era", ERAS)
def test_every_row_is_seen_directly(era: str) -> None:
    report, way = Report(), Way(through="direct", client=era, server=era)
    asyncio.run(measure_way(report, way, no_hub, PROBES))
    unseen = {
        name: outcome.failure or "none"
        for (name, _), outcome in report.outcomes.items()
        if outcome.failure or outcome.seen is None
    }
    assert unseen == {}
    asked = {probe.name for probe in PROBES if probe.applies(era, era, is_aggregate=False)}
    assert {name for name, _ in report.outcomes} == asked
