"""What clients of both eras can do with servers of both eras, alone and on the aggregate."""

from __future__ import annotations

from typing import Any

import pytest

from connectors.models import CatalogTool, ToolCall
from tenants.principal import Scope
from tests.fakes.mcp_servers import Kind
from tests.fakes.raw_modern import RawModern
from tests.fakes.raw_server import RawServer, Request, Wire, error, result
from tests.gateway.hub import Hub, Legacy, Modern
from tests.world import World

ERAS = [Kind.MODERN, Kind.LEGACY]
Client = Legacy | Modern
ODD: dict[str, Any] = {
    "content": [{"type": "text", "text": "é", "x-odd": [None, 1.50, {}]}],
    "structuredContent": {"n": 12345678901234567890, "z": None},
    "_meta": {"com.example/vendor": {"deep": [[]]}},
    "x-unknown": False,
}
COMPLETE_OF: dict[type, dict[str, Any]] = {RawModern: {"resultType": "complete"}, RawServer: {}}


def client_of(hub: Hub, era: str, path: str, **fields: Any) -> Client:
    if era == "modern":
        return Modern(client=hub.client(), path=path, **fields)
    return Legacy(client=hub.client(), path=path, **fields).open()


@pytest.fixture(params=["modern", "legacy"])
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("kind", ERAS)
def test_one_server_is_shown_as_it_is(hub: Hub, era: str, kind: Kind) -> None:
    hub.add("demo", kind)
    client = client_of(hub, era, "/mcp/s/demo")
    names = [tool["name"] for tool in client.result("tools/list")["tools"]]
    assert names[:3] == ["echo", "add", "sleep"]
    called = client.result("tools/call", {"name": "echo", "arguments": {"text": "hé"}})
    assert called["content"] == [{"type": "text", "text": "hé"}]
    assert called.get("resultType") == ("complete" if era == "modern" else None)
    resources = client.result("resources/list")["resources"]
    read = client.result("resources/read", {"uri": resources[0]["uri"]})
    assert read["contents"][0]["uri"] == resources[0]["uri"]
    templates = client.result("resources/templates/list")["resourceTemplates"]
    assert "uriTemplate" in templates[0]
    prompts = client.result("prompts/list")["prompts"]
    arguments = {each["name"]: "x" for each in prompts[0].get("arguments", [])}
    got = client.result("prompts/get", {"name": prompts[0]["name"], "arguments": arguments})
    assert got["messages"]
    ref = {"type": "ref/prompt", "name": prompts[0]["name"]}
    done = client.result(
        "completion/complete", {"ref": ref, "argument": {"name": "a", "value": ""}}
    )
    assert "values" in done["completion"]


def test_the_aggregate_names_everything_by_its_server(hub: Hub, era: str) -> None:
    hub.add("one", Kind.MODERN)
    hub.add("two", Kind.LEGACY)
    client = client_of(hub, era, "/mcp")
    listed = client.result("tools/list")
    names = {tool["name"] for tool in listed["tools"]}
    assert {"one__echo", "two__echo"} <= names
    states = {each["server"]: each["state"] for each in listed["_meta"]["mcphub/sources"]}
    assert states == {"one": "connected", "two": "connected"}
    for server in ("one", "two"):
        params = {"name": f"{server}__echo", "arguments": {"text": server}}
        assert client.result("tools/call", params)["content"][0]["text"] == server
        assert ToolCall.unscoped.latest("created_at").server == server
    uris = [each["uri"] for each in client.result("resources/list")["resources"]]
    assert len(set(uris)) == len(uris)
    for uri in uris[:1] + uris[-1:]:
        read = client.result("resources/read", {"uri": uri})
        assert read["contents"][0]["uri"] == uri
    prompts = [each["name"] for each in client.result("prompts/list")["prompts"]]
    assert {name.partition("__")[0] for name in prompts} == {"one", "two"}


def test_the_aggregate_resolves_no_bare_name(hub: Hub, era: str) -> None:
    hub.add("one", Kind.MODERN)
    client = client_of(hub, era, "/mcp")
    for name in ("echo", "two__echo", "one__"):
        error = client.ask("tools/call", {"name": name})["error"]
        assert (error["code"], error["data"]["code"]) == (-32602, "unknown_tool")
    assert client.ask("prompts/get", {"name": "greet"})["error"]["code"] == -32602
    missing = client.ask("resources/read", {"uri": "demo://greeting"})["error"]
    assert missing["code"] == (-32602 if era == "modern" else -32002)


def test_a_server_that_is_wanted_and_away_is_named(hub: Hub, era: str) -> None:
    hub.add("one", Kind.MODERN)
    row = hub.add("two", Kind.LEGACY)
    row.state = "error"
    row.last_error = {"message": "It does not answer.", "code": "upstream_unreachable"}
    row.save()
    client = client_of(hub, era, "/mcp")
    listed = client.result("tools/list")
    assert {tool["name"].partition("__")[0] for tool in listed["tools"]} == {"one"}
    away = {each["server"]: each for each in listed["_meta"]["mcphub/sources"]}["two"]
    assert (away["state"], away["error"]["code"]) == ("error", "upstream_unreachable")
    opened = client.opened if isinstance(client, Legacy) else client.result("server/discover")
    assert "two (error)" in opened["instructions"]


def test_a_server_that_was_never_connected_says_so(hub: Hub, world: World) -> None:
    from tests.connectors.session_stack import add_server  # noqa: PLC0415

    add_server(world.alice.principal, "http://127.0.0.1:1/mcp", name="idle")
    answer = Modern(client=hub.client(), path="/mcp/s/idle").post("server/discover")
    assert answer.status_code == 409
    assert answer.json()["error"]["data"]["code"] == "not_connected"


@pytest.mark.parametrize("person", ["bob", "charlie"])
def test_a_server_of_somebody_else_is_unknown(hub: Hub, world: World, person: str) -> None:
    hub.add("demo", Kind.MODERN)
    client = hub.client(getattr(world, person))
    answer = Modern(client=client, path="/mcp/s/demo").post("server/discover")
    assert answer.status_code == 404
    aggregate = Modern(client=client)
    assert aggregate.result("tools/list")["tools"] == []
    error = aggregate.ask("tools/call", {"name": "demo__echo", "arguments": {"text": "x"}})
    assert error["error"]["data"]["code"] == "unknown_tool"


def test_the_address_can_narrow_servers_and_tools(hub: Hub, era: str) -> None:
    hub.add("one", Kind.MODERN)
    hub.add("two", Kind.MODERN)
    client = client_of(hub, era, "/mcp?servers=one&tools=one__echo,one__add,two__echo")
    names = [tool["name"] for tool in client.result("tools/list")["tools"]]
    assert names == ["one__echo", "one__add"]
    for name in ("one__sleep", "two__echo"):
        error = client.ask("tools/call", {"name": name, "arguments": {"text": "x"}})["error"]
        assert error["data"]["code"] == "unknown_tool"
    uris = [each["uri"] for each in client.result("resources/list")["resources"]]
    assert all(uri.startswith("mcphub://one/") for uri in uris)
    foreign = uris[0].replace("//one/", "//two/")
    assert "error" in client.ask("resources/read", {"uri": foreign})


def test_a_tool_that_is_switched_off_is_neither_listed_nor_called(hub: Hub, era: str) -> None:
    hub.add("one", Kind.MODERN)
    CatalogTool.unscoped.filter(name="echo").update(is_enabled=False)
    client = client_of(hub, era, "/mcp")
    names = {tool["name"] for tool in client.result("tools/list")["tools"]}
    assert "one__echo" not in names
    error = client.ask("tools/call", {"name": "one__echo", "arguments": {"text": "x"}})["error"]
    assert error["data"]["code"] == "tool_disabled"


def test_a_key_without_the_scope_may_list_and_not_call(hub: Hub, world: World) -> None:
    hub.add("one", Kind.MODERN)
    client = hub.client()
    client.headers.update(world.alice.headers_with(Scope.SERVERS_READ))
    reader = Modern(client=client)
    assert reader.result("tools/list")["tools"]
    error = reader.ask("tools/call", {"name": "one__echo", "arguments": {"text": "x"}})["error"]
    assert error["data"]["code"] == "not_permitted"
    client.headers.update(world.alice.headers_with(Scope.TOOLS_CALL))
    assert reader.ask("tools/list")["error"]["data"]["requiredScope"] == "servers:read"


@pytest.mark.parametrize("kind", ERAS)
def test_an_error_of_a_tool_stays_a_result(hub: Hub, era: str, kind: Kind) -> None:
    hub.add("demo", kind)
    client = client_of(hub, era, "/mcp/s/demo")
    assert client.result("tools/call", {"name": "fail"})["isError"] is True


@pytest.mark.parametrize("kind", [RawModern, RawServer])
def test_what_a_server_answers_keeps_every_field(hub: Hub, era: str, kind: type[RawServer]) -> None:
    class Odd(kind):  # type: ignore[misc, valid-type]  # a parameter of the test
        async def on_call(self, request: Request, wire: Wire) -> None:
            if request.arguments.get("fail"):
                await wire.answer(error(request.id, -32055, "as it is", {"x": [1, None, "é"]}))
            else:
                await wire.answer(result(request.id, {**ODD, **COMPLETE_OF[kind]}))

    hub.add_raw("odd", Odd())
    client = client_of(hub, era, "/mcp/s/odd")
    got = client.result("tools/call", {"name": "echo", "arguments": {}})
    assert {key: value for key, value in got.items() if key != "resultType"} == ODD
    failed = client.ask("tools/call", {"name": "echo", "arguments": {"fail": True}})["error"]
    assert failed == {"code": -32055, "message": "as it is", "data": {"x": [1, None, "é"]}}


def test_a_server_never_sees_what_a_client_says_about_its_own_hop(hub: Hub, era: str) -> None:
    server = RawServer()
    hub.add_raw("odd", server)
    client = client_of(hub, era, "/mcp/s/odd")
    meta = {"com.example/x": {"a": [None]}, "progressToken": "mine"}
    client.result("tools/call", {"name": "echo", "arguments": {"a": None}, "_meta": meta})
    sent = server.of("tools/call")[0].params
    assert sent["arguments"] == {"a": None}
    own = sent["_meta"]
    assert isinstance(own, dict)
    assert own.pop("progressToken") != "mine"
    assert own == {"com.example/x": {"a": [None]}}


def test_lists_come_in_pages_when_they_are_long(
    hub: Hub, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.pages.PAGE_ITEMS", 3)
    hub.add("one", Kind.MODERN)
    client = client_of(hub, era, "/mcp")
    names, cursor = [], None
    for _ in range(10):
        page = client.result("tools/list", {"cursor": cursor} if cursor else {})
        names += [tool["name"] for tool in page["tools"]]
        cursor = page.get("nextCursor")
        if cursor is None:
            break
    assert len(names) == len(set(names)) == 8
    assert client.ask("tools/list", {"cursor": "3-0123456789abcdef"})["error"]["code"] == -32602


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_every_handshake_revision_is_spoken(hub: Hub, version: str) -> None:
    hub.add("one", Kind.MODERN)
    client = Legacy(client=hub.client(), version=version).open()
    assert client.opened["protocolVersion"] == version
    result = client.result("tools/call", {"name": "one__echo", "arguments": {"text": "x"}})
    assert result["content"][0]["text"] == "x"


def test_an_unknown_revision_gets_the_newest_of_the_handshake_era(hub: Hub) -> None:
    client = Legacy(client=hub.client(), version="2030-01-01")
    opened = client.post(
        client.request("initialize", {"protocolVersion": "2030-01-01", "capabilities": {}})
    )
    assert opened.json()["result"]["protocolVersion"] == "2025-11-25"


def test_only_one_revision_has_batches(hub: Hub) -> None:
    hub.add("one", Kind.MODERN)
    client = Legacy(client=hub.client(), version="2025-03-26").open()
    call = {"name": "one__echo", "arguments": {"text": "x"}}
    batch = [client.request("ping"), client.request("tools/call", call)]
    answers = {each["id"]: each for each in client.post(batch).json()}
    assert answers[batch[0]["id"]]["result"] == {}
    assert answers[batch[1]["id"]]["result"]["content"][0]["text"] == "x"
    assert client.post([{"jsonrpc": "2.0", "method": "notifications/x"}]).status_code == 202
    assert client.post([client.request("ping") for _ in range(51)]).status_code == 400
    newer = Legacy(client=hub.client(), version="2025-06-18").open()
    assert newer.post([newer.request("ping")]).status_code == 400
