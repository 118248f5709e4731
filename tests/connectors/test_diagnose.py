"""The checklist of a server, against real servers: which step fails, what is skipped then."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from connectors.server_spec import ServerSpec, Transport
from connectors.services.diagnose import NAMES, Step, diagnose
from mcphub.core.egress import EgressPolicy
from tests.fakes.mcp_servers import Kind, running

LOCAL = EgressPolicy(allow_loopback=True)


def spec(url: str, **more: Any) -> ServerSpec:
    ids: Any = {name: uuid.uuid4() for name in ("connection_id", "tenant_id", "member_id")}
    return ServerSpec(slug="s", url=url, connect_timeout=5.0, **ids, **more)


def resolving_to(*addresses: str) -> Callable[[str, int], Awaitable[list[str]]]:
    async def resolve(host: str, port: int) -> list[str]:
        return list(addresses)

    return resolve


async def no_such_name(host: str, port: int) -> list[str]:
    raise OSError("no such name")


def words(steps: list[Step]) -> dict[str, str]:
    return {step.name: step.outcome for step in steps}


def outcomes(*words_in_order: str) -> dict[str, str]:
    """Return the words by step; what is left out is skipped."""
    rest = ["skipped"] * (len(NAMES) - len(words_in_order))
    return dict(zip(NAMES, [*words_in_order, *rest], strict=True))


@pytest.mark.parametrize(
    ("kind", "era", "version"),
    [(Kind.LEGACY, "legacy", "2025-11-25"), (Kind.MODERN, "modern", "2026-07-28")],
)
def test_a_good_server_passes_every_step(kind: Kind, era: str, version: str) -> None:
    with running(kind) as server:
        steps = async_to_sync(diagnose)(spec(server.url), policy=LOCAL)

    assert words(steps) == outcomes("skipped", "ok", "ok", "skipped", "ok", "ok", "ok")
    assert steps[5].detail == {
        "era": era,
        "transport": "streamable-http",
        "protocolVersion": version,
    }


async def test_a_name_that_does_not_resolve_fails_first() -> None:
    steps = await diagnose(
        spec("https://nowhere.example/mcp"), policy=EgressPolicy(), resolve=no_such_name
    )

    assert words(steps) == outcomes("failed")
    assert (steps[0].code, steps[0].hint) == (
        "upstream_unreachable",
        "The host name does not resolve.",
    )


async def test_a_name_of_a_private_address_is_never_connected_to() -> None:
    steps = await diagnose(
        spec("https://inner.example/mcp"),
        policy=EgressPolicy(),
        resolve=resolving_to("93.184.216.34", "10.0.0.7"),
    )

    assert words(steps) == outcomes("ok", "failed")
    assert steps[1].code == "blocked_url"
    assert "10.0.0.7" not in str([step.as_json for step in steps])


async def test_a_blocked_address_in_the_url_fails_at_once() -> None:
    steps = await diagnose(spec("https://169.254.169.254/"), policy=EgressPolicy())

    assert words(steps) == outcomes("failed")
    assert steps[0].code == "blocked_url"


async def test_a_port_where_nothing_listens_fails_at_tcp(unused_tcp_port: int) -> None:
    steps = await diagnose(spec(f"http://127.0.0.1:{unused_tcp_port}/mcp"), policy=LOCAL)

    assert words(steps) == outcomes("skipped", "ok", "failed")


def test_plain_http_behind_an_https_address_fails_at_tls() -> None:
    with running(Kind.LEGACY) as server:
        url = server.url.replace("http://", "https://")
        steps = async_to_sync(diagnose)(spec(url), policy=LOCAL)

    assert words(steps) == outcomes("skipped", "ok", "ok", "failed")


def test_a_server_elsewhere_on_the_host_is_no_mcp_endpoint() -> None:
    with running(Kind.LEGACY) as server:
        steps = async_to_sync(diagnose)(spec(server.url + "/nothing"), policy=LOCAL)

    assert words(steps) == outcomes("skipped", "ok", "ok", "skipped", "ok", "failed")


async def test_programs_are_left_to_a_worker() -> None:
    steps = await diagnose(spec("", transport=Transport.STDIO, command=("server",)))

    assert words(steps) == outcomes()
