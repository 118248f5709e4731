"""Tool search: two tools instead of all, said openly, with every call where it belongs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tenants import api_keys
from tests.fakes.mcp_servers import Kind
from tests.gateway.hub import Hub, Legacy, Modern
from tests.world import World, bearer

META = "mcphub/toolSearch"


def opened(hub: Hub, era: str) -> tuple[Modern | Legacy, dict[str, Any]]:
    if era == "modern":
        modern = Modern(client=hub.client(), path="/mcp?mode=search")
        return modern, modern.result("server/discover")
    legacy = Legacy(client=hub.client(), path="/mcp?mode=search").open()
    return legacy, legacy.opened


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_tools_are_found_and_called_instead_of_listed(hub: Hub, era: str) -> None:
    hub.add("one", Kind.MODERN)
    hub.add("two", Kind.LEGACY)
    every = Modern(client=hub.client()).result("tools/list")["tools"]
    client, told = opened(hub, era)

    listed = client.result("tools/list")

    assert [tool["name"] for tool in listed["tools"]] == ["search_tools", "call_tool"]
    assert listed["_meta"][META] == {"found": len(every), "with": "search_tools"}
    assert "search_tools" in told["instructions"]
    found = client.result("tools/call", {"name": "search_tools", "arguments": {"query": "Echo"}})
    assert found["structuredContent"]["all"] == len(every)
    names = [tool["name"] for tool in found["structuredContent"]["tools"]]
    assert {"one__echo", "two__echo"} <= set(names)
    assert json.loads(found["content"][0]["text"]) == found["structuredContent"]
    for name in ("one__echo", "two__echo"):
        arguments = {"name": name, "arguments": {"text": name}}
        called = client.result("tools/call", {"name": "call_tool", "arguments": arguments})
        assert called["content"][0]["text"] == name


@pytest.mark.parametrize("name", ["call_tool", "search_tools", "", "three__x", 5])
def test_only_a_tool_that_can_be_found_is_called(hub: Hub, name: Any) -> None:
    hub.add("one", Kind.MODERN)
    client = Modern(client=hub.client(), path="/mcp?mode=search")
    arguments = {"name": name, "arguments": {}}
    error = client.ask("tools/call", {"name": "call_tool", "arguments": arguments})["error"]
    assert error["code"] == -32602


def test_a_key_can_say_so_as_well_and_policy_holds(hub: Hub, world: World) -> None:
    hub.add("one", Kind.MODERN)
    new = api_keys.NewKey(name="finder", finds_tools=True, is_read_only=True)
    http = hub.client()
    http.headers.update(bearer(api_keys.issue(world.alice.member, new=new).secret))
    client = Modern(client=http)
    assert client.result("tools/list")["_meta"][META]["found"] == 0
    arguments = {"name": "one__echo", "arguments": {"text": "x"}}
    error = client.ask("tools/call", {"name": "call_tool", "arguments": arguments})["error"]
    assert error["data"]["code"] == "tool_not_read_only"


def test_elsewhere_these_are_no_tools(hub: Hub) -> None:
    hub.add("one", Kind.MODERN)
    search = {"name": "search_tools", "arguments": {}}
    for path in ("/mcp", "/mcp/s/one?mode=search"):
        client = Modern(client=hub.client(), path=path)
        names = {tool["name"] for tool in client.result("tools/list")["tools"]}
        assert not names & {"search_tools", "call_tool"}
        found = client.ask("tools/call", search)
        if path == "/mcp":
            assert found["error"]["data"]["code"] == "unknown_tool"
        else:  # the server's own answer
            assert "mcphub" not in str(found)
            assert (found["error"].get("data") or {}).get("code") != "unknown_tool"
