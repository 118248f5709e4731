"""docs/relay-inventory.md says what the running hub does, and nothing is advertised untruly."""

from __future__ import annotations

import asyncio
import difflib

import pytest
from pytest_django.plugin import DjangoDbBlocker

from tests.fakes.relay.server import RelayServer
from tests.live.api import EVERY_QUESTION, Api
from tests.live.newcomer import newcomer_at
from tests.live.stack import RunningHub
from tests.relay_inventory.capabilities import untrue
from tests.relay_inventory.document import PATH, ways, written
from tests.relay_inventory.measure import Report, measure

pytestmark = pytest.mark.live
SLUG = "relay"


@pytest.fixture(scope="module")
def report(stack: RunningHub, django_db_blocker: DjangoDbBlocker) -> Report:
    """Measure once, with a member of its own for each way."""

    def connected(upstream: RelayServer, through: str) -> tuple[str, str]:
        with django_db_blocker.unblock():
            newcomer = newcomer_at(stack)
        Api(newcomer.http).connected(SLUG, upstream.url, **EVERY_QUESTION)
        path = f"/mcp/s/{SLUG}" if through == "/mcp/s" else through
        return f"{stack.url}{path}", newcomer.api_key

    async def access(upstream: RelayServer, through: str) -> tuple[str, str]:
        return await asyncio.to_thread(connected, upstream, through)

    return asyncio.run(measure(access))


def test_the_relay_inventory_is_what_is_measured(
    report: Report, pytestconfig: pytest.Config
) -> None:
    page = written(report)
    if pytestconfig.getoption("--write-inventory"):
        PATH.write_text(page)
    stale = difflib.unified_diff(
        PATH.read_text().splitlines(), page.splitlines(), "committed", "measured", lineterm=""
    )
    assert not list(stale), "run `make inventory`:\n" + "\n".join(stale)


def test_nothing_is_advertised_that_is_not_relayed(report: Report) -> None:
    found = {way: wrong for way in ways() if (wrong := untrue(report, way))}
    assert found == {}
