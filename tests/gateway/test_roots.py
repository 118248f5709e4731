"""Roots of a client that have changed, as its servers hear of it: those that may ask, no others."""

from __future__ import annotations

import json
from typing import Any

import httpx

from connectors.server_spec import Relay
from tests.fakes.relay.server import RelayServer
from tests.gateway.hub import Hub, Legacy, Modern
from tests.gateway.streams import opened
from tests.world import World

CHANGED = "notifications/roots/list_changed"
TELLING: dict[str, Any] = {"roots": {"listChanged": True}}


def legacy(hub: Hub, path: str = "/mcp", **fields: Any) -> Legacy:
    given = {"capabilities": TELLING, **fields}
    return Legacy(client=hub.client(given.pop("person", None)), path=path, **given).open()


def consented(hub: Hub, slug: str, **fields: Any) -> RelayServer:
    given = {"is_modern": False, "consented": [Relay.ROOTS], **fields}
    return hub.add_relay(slug, **given)


def declared_to(server: RelayServer) -> Any:
    return server.until_seen("initialize")["params"]["capabilities"]  # type: ignore[index,call-overload]


def test_a_server_hears_that_the_roots_of_a_client_have_changed(hub: Hub) -> None:
    server = consented(hub, "demo")
    assert declared_to(server)["roots"] == {"listChanged": True}
    assert legacy(hub).notify(CHANGED).status_code == 202
    assert server.until_seen(CHANGED).get("params", {}) == {}


def test_at_the_endpoint_of_one_server_no_other_one_hears(hub: Hub) -> None:
    server, other = consented(hub, "demo"), consented(hub, "other")
    legacy(hub, "/mcp/s/demo").notify(CHANGED)
    server.until_seen(CHANGED)
    legacy(hub, "/mcp/s/other").notify(CHANGED)
    other.until_seen(CHANGED)
    assert (len(server.of(CHANGED)), len(other.of(CHANGED))) == (1, 1)


def test_without_consent_a_server_hears_nothing(hub: Hub) -> None:
    silent, told = consented(hub, "silent", consented=[]), consented(hub, "told")
    assert "roots" not in declared_to(silent)
    legacy(hub).notify(CHANGED)
    told.until_seen(CHANGED)
    assert not silent.of(CHANGED)


def test_a_client_that_did_not_say_that_it_would_tell_is_not_heard(hub: Hub) -> None:
    server = consented(hub, "demo")
    assert legacy(hub, capabilities={"roots": {}}).notify(CHANGED).status_code == 202
    legacy(hub).notify(CHANGED)
    server.until_seen(CHANGED)
    assert len(server.of(CHANGED)) == 1


def test_the_server_of_another_member_hears_nothing(hub: Hub, world: World) -> None:
    mine, theirs = consented(hub, "demo"), consented(hub, "demo", person=world.bob)
    legacy(hub).notify(CHANGED)
    mine.until_seen(CHANGED)
    assert not theirs.of(CHANGED)
    legacy(hub, person=world.bob).notify(CHANGED)
    theirs.until_seen(CHANGED)
    assert len(mine.of(CHANGED)) == 1


def test_a_storm_of_changes_is_few_for_the_server(hub: Hub) -> None:
    server, client = consented(hub, "demo"), legacy(hub)
    for _ in range(30):
        client.notify(CHANGED)
    server.until_seen(CHANGED, times=2)
    assert len(server.of(CHANGED)) < 10


def test_a_client_of_http_and_sse_is_heard_too(hub: Hub) -> None:
    server, client = consented(hub, "demo"), hub.client()
    with opened(client, "/mcp/sse", {}) as stream:
        address = stream.next()[1]
        params = {
            "protocolVersion": "2024-11-05",
            "capabilities": TELLING,
            "clientInfo": {"name": "raw", "version": "1"},
        }
        post(client, address, {"id": 1, "method": "initialize", "params": params})
        assert stream.message()["id"] == 1
        post(client, address, {"method": CHANGED})
        server.until_seen(CHANGED)


def post(client: httpx.Client, address: str, message: dict[str, Any]) -> None:
    answer = client.post(address, json={"jsonrpc": "2.0", **message})
    assert answer.status_code == 202, answer.text


def test_a_server_of_2026_is_neither_told_nor_promised_to_be(hub: Hub) -> None:
    new, old = consented(hub, "new", is_modern=True), consented(hub, "old")
    asking = Modern(client=hub.client(), path="/mcp/s/new", capabilities=TELLING)
    asking.result("tools/call", {"name": "progress", "arguments": {}})
    assert "listChanged" not in json.dumps(
        [
            message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]  # type: ignore[index,call-overload]
            for message in new.seen
            if "params" in message
        ]
    )
    legacy(hub).notify(CHANGED)
    old.until_seen(CHANGED)
    assert not new.of(CHANGED)
