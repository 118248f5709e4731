"""The official conformance suite, server leg: what passes directly passes through the hub."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.conformance.suite import Verdict, server_leg
from tests.factories import unique
from tests.fakes.bearer_proxy import adding_bearer
from tests.live.api import EVERY_QUESTION, Api
from tests.live.newcomer import Newcomer
from tests.live.reference import conformance_server, everything
from tests.live.stack import RunningHub

pytestmark = [pytest.mark.live, pytest.mark.node]

ERAS = {"2025-11-25": "legacy", "2026-07-28": "modern"}
SCORED = {"2025-11-25": 30, "2026-07-28": 37}
"""Scenarios of a revision that count; all of them pass directly, and some that were added since."""
STREAMED = "server-sse-streams-functional"
"""Made only of responses that are streams; the hub streams when there is something to stream."""
RESUMED = "server-sse-polling"
"""Not scored: the hub does not let a POST's stream be resumed (docs/decisions/0008)."""
ANY_NAMES = {
    "server-initialize",
    "server-session-lifecycle",
    "ping",
    "logging-set-level",
    "tools-list",
    "resources-list",
    "prompts-list",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
}
"""Scenarios that call nothing by a name of their own: they can be asked of an aggregate."""


def lost(direct: Mapping[str, Verdict], through: Mapping[str, Verdict]) -> dict[str, object]:
    """What holds directly and not through the hub: failed checks, or checks not made at all."""
    gone = dict[str, object]()
    for name, verdict in direct.items():
        here = through.get(name, Verdict(passed=frozenset(), failed={}))
        missing = verdict.passed - here.passed - {STREAMED}
        if name != RESUMED and verdict.holds and (missing or not here.holds):
            gone[name] = here.failed or sorted(missing)
    return gone


@pytest.mark.parametrize("revision", sorted(ERAS))
def test_one_server_passes_through_the_hub_what_it_passes_directly(
    stack: RunningHub, newcomer: Newcomer, tmp_path: Path, revision: str
) -> None:
    slug = unique("cf")[:24]
    with conformance_server(ERAS[revision]) as upstream:
        Api(newcomer.http).connected(slug, upstream, **EVERY_QUESTION)
        direct = server_leg(upstream, revision, tmp_path / "direct")
        with adding_bearer(f"{stack.url}/mcp/s/{slug}", newcomer.api_key) as url:
            through = server_leg(url, revision, tmp_path / "through")
    assert sum(verdict.holds for verdict in direct.values()) >= SCORED[revision], direct
    gone = lost(direct, through)
    assert not gone, json.dumps(gone, indent=1)


def test_the_aggregate_passes_what_names_nothing(
    stack: RunningHub, newcomer: Newcomer, tmp_path: Path
) -> None:
    api = Api(newcomer.http)
    with everything("streamableHttp") as reference:
        api.connected(unique("ev")[:24], reference)
        direct = server_leg(reference, "2025-11-25", tmp_path / "direct")
        with adding_bearer(f"{stack.url}/mcp", newcomer.api_key) as url:
            through = server_leg(url, "2025-11-25", tmp_path / "through")
    asked = {name: verdict for name, verdict in direct.items() if name in ANY_NAMES}
    assert any(verdict.holds for verdict in asked.values())
    gone = lost(asked, through)
    assert not gone, json.dumps(gone, indent=1)
