"""Every row on every route: what is measured, as outcomes that can be compared."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx

from mcphub.core.types import JSONObject, JSONValue
from tests.fakes.relay.server import RelayServer, serving_relay
from tests.mcp_client.base import McpClient, opened
from tests.mcp_client.legacy import LegacyClient
from tests.mcp_client.modern import ModernClient
from tests.relay_inventory import notifications, questions, requests, tasks
from tests.relay_inventory.probe import CAPABLE, NotSeenError, Probe, answered
from tests.relay_inventory.route import Route, differences

PROBES: tuple[Probe, ...] = (
    *requests.PROBES,
    *notifications.PROBES,
    *questions.PROBES,
    *tasks.PROBES,
)
ERAS = ("legacy", "modern")
CLIENTS: Mapping[str, type[McpClient]] = {"legacy": LegacyClient, "modern": ModernClient}
PROBE_SECONDS = 20.0
FAILURES = (AssertionError, KeyError, StopIteration, TimeoutError, httpx.HTTPError, TypeError)


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Way:
    """One column: directly, to one server or through the aggregate, in a pair of eras."""

    through: str
    client: str
    server: str

    @property
    def is_direct(self) -> bool:
        return self.through == "direct"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was found on one way."""

    seen: JSONValue = None
    failure: str = ""

    def compared(self, direct: Outcome) -> tuple[str, list[str]]:
        """Return "same", "differs", "none" or "fails", and where it differs."""
        if self.failure:
            return "fails", [self.failure]
        if self.seen is None:
            return "none", []
        places = differences(direct.seen, self.seen)
        return ("differs", places) if places else ("same", [])


@dataclass(slots=True)
class Report:
    """What was measured: outcomes by row and way, advertised capabilities by way."""

    outcomes: dict[tuple[str, Way], Outcome] = field(default_factory=dict)
    advertised: dict[Way, JSONObject] = field(default_factory=dict)

    def verdict(self, probe: Probe, way: Way) -> tuple[str, list[str]]:
        if not probe.applies(way.client, way.server, is_aggregate=way.through == "/mcp"):
            return "", []
        direct = self.outcomes[
            probe.name, Way(through="direct", client=way.server, server=way.server)
        ]
        return self.outcomes[probe.name, way].compared(direct)


Access = Callable[[RelayServer, str], Awaitable[tuple[str, str]]]
"""Have the hub connect a fresh member to a server: (fixture, path) to (URL, Bearer token)."""


async def measure(access: Access, probes: Sequence[Probe] = PROBES) -> Report:
    """Measure directly and through the hub, all pairs beside each other."""
    report = Report()
    ways = [Way(through="direct", client=era, server=era) for era in ERAS]
    ways += [
        Way(through=through, client=client, server=server)
        for through in ("/mcp", "/mcp/s")
        for client in ERAS
        for server in ERAS
    ]
    await asyncio.gather(*(measure_way(report, way, access, probes) for way in ways))
    return report


async def measure_way(report: Report, way: Way, access: Access, probes: Sequence[Probe]) -> None:
    with serving_relay(is_modern=way.server == "modern") as upstream:
        url, token = (
            (upstream.url, "none") if way.is_direct else await access(upstream, way.through)
        )
        for is_offering in (True, False):
            mine = [probe for probe in probes if probe.is_offering is is_offering]
            mine = [probe for probe in mine if applies(probe, way)]
            async with a_route(way, upstream, url, token, is_offering=is_offering) as route:
                if is_offering:
                    report.advertised[way] = route.client.server_capabilities
                for probe in mine:
                    report.outcomes[probe.name, way] = await outcome_of(probe, route)


def applies(probe: Probe, way: Way) -> bool:
    return probe.applies(way.client, way.server, is_aggregate=way.through == "/mcp")


@asynccontextmanager
async def a_route(
    way: Way, upstream: RelayServer, url: str, token: str, *, is_offering: bool
) -> AsyncIterator[Route]:
    capabilities = CAPABLE[way.client] if is_offering else {}
    client = CLIENTS[way.client](url, token, capabilities, answered if is_offering else None)
    async with opened(client):
        route = Route(client=client, upstream=upstream, is_aggregate=way.through == "/mcp")
        await route.learn_names()
        yield route


async def outcome_of(probe: Probe, route: Route) -> Outcome:
    """Measure one row; whatever goes wrong is an outcome too."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            return Outcome(seen=await probe.measure(route))
    except NotSeenError:
        return Outcome()
    except FAILURES as exc:
        return Outcome(failure=f"{type(exc).__name__}: {exc}".split("\n")[0])
