"""What the user's policy does at the gateway: descriptions, changed definitions, read-only keys."""

from __future__ import annotations

from typing import Any

from connectors import selectors
from connectors.models import CatalogListing, CatalogTool, Connection
from connectors.services import tool_table
from tenants import api_keys
from tests.fakes.mcp_servers import Kind
from tests.fakes.raw_server import RawServer, Request, Wire, error, result, text_result
from tests.gateway.hub import Hub, Modern
from tests.world import World, bearer

CALL = {"name": "one__echo", "arguments": {"text": "x"}}


def tools_of(client: Modern) -> dict[str, dict[str, Any]]:
    return {tool["name"]: tool for tool in client.result("tools/list")["tools"]}


def test_an_overridden_description_is_shown_and_the_own_one_kept(hub: Hub, world: World) -> None:
    row = hub.add("one", Kind.MODERN)
    own = tools_of(Modern(client=hub.client()))["one__echo"]
    tool_table.override_description(world.alice.principal, row, "echo", "Ours.")
    selectors.targets.clear()
    for path, name in (("/mcp", "one__echo"), ("/mcp/s/one", "echo")):
        shown = tools_of(Modern(client=hub.client(), path=path))[name]
        assert shown["description"] == "Ours."
        assert shown["_meta"]["mcphub/originalDescription"] == own["description"]
        assert shown["inputSchema"] == own["inputSchema"]


APPROVED = {"name": "echo", "description": "As approved.", "inputSchema": {"type": "object"}}


def test_a_changed_definition_that_waits_is_shown_as_it_was_and_not_called(hub: Hub) -> None:
    hub.add("one", Kind.MODERN)
    Connection.unscoped.update(definition_policy="block")
    CatalogTool.unscoped.filter(name="echo").update(
        approved_digest="0" * 64, approved_definition=APPROVED
    )
    client = Modern(client=hub.client())
    listed = tools_of(client)["one__echo"]
    assert listed["description"] == "As approved."
    assert listed["_meta"]["mcphub/definition"] == {"standing": "changed", "blocked": True}
    error = client.ask("tools/call", CALL)["error"]
    assert error["data"]["code"] == "tool_definition_changed"


def test_a_new_tool_that_waits_is_neither_listed_nor_called(hub: Hub) -> None:
    hub.add("one", Kind.MODERN)
    Connection.unscoped.update(definition_policy="block")
    CatalogTool.unscoped.filter(name="echo").update(approved_digest="")
    client = Modern(client=hub.client())
    assert "one__echo" not in tools_of(client)
    error = client.ask("tools/call", CALL)["error"]
    assert error["data"]["code"] == "tool_definition_changed"


def test_a_read_only_key_lists_and_calls_read_only_tools_only(hub: Hub, world: World) -> None:
    row = hub.add("one", Kind.MODERN)
    listing = CatalogListing.unscoped.get(connection=row, kind="tools")
    listing.items = [
        {**item, "annotations": {"readOnlyHint": item["name"] == "echo"}} for item in listing.items
    ]
    listing.save()
    new = api_keys.NewKey(name="reader", is_read_only=True)
    client = hub.client()
    client.headers.update(bearer(api_keys.issue(world.alice.member, new=new).secret))
    reader = Modern(client=client)
    assert set(tools_of(reader)) == {"one__echo"}
    assert reader.result("tools/call", CALL)["content"][0]["text"] == "x"
    error = reader.ask("tools/call", {"name": "one__add", "arguments": {}})["error"]
    assert error["data"]["code"] == "tool_not_read_only"


class Hiding(RawServer):
    """Has a tool that it does not list."""

    async def on_call(self, request: Request, wire: Wire) -> None:
        if request.params["name"] == "hidden":
            await wire.answer(result(request.id, text_result("found")))
        else:
            await wire.answer(error(request.id, -32602, "no such tool here", {"x": 1}))


def test_whether_a_server_has_a_tool_that_it_does_not_list_it_says_itself(hub: Hub) -> None:
    hub.add_raw("one", Hiding())
    client = Modern(client=hub.client(), path="/mcp/s/one")
    assert client.result("tools/call", {"name": "hidden"})["content"][0]["text"] == "found"
    told = client.ask("tools/call", {"name": "missing"})["error"]
    assert told == {"code": -32602, "message": "no such tool here", "data": {"x": 1}}
    narrowed = Modern(client=hub.client(), path="/mcp/s/one?tools=echo")
    for away, name in ((narrowed, "hidden"), (Modern(client=hub.client()), "one__hidden")):
        assert away.ask("tools/call", {"name": name})["error"]["data"]["code"] == "unknown_tool"


def test_a_tool_that_is_not_listed_is_not_called_against_the_policy(hub: Hub, world: World) -> None:
    server = Hiding()
    row = hub.add_raw("one", server)
    client = Modern(client=hub.client(), path="/mcp/s/one")
    new = api_keys.NewKey(name="reader", is_read_only=True)
    http = hub.client()
    http.headers.update(bearer(api_keys.issue(world.alice.member, new=new).secret))
    reader = Modern(client=http, path="/mcp/s/one")
    refused = reader.ask("tools/call", {"name": "hidden"})["error"]
    assert refused["data"]["code"] == "tool_not_read_only"
    CatalogTool.unscoped.create(
        tenant=row.tenant,
        member=row.member,
        connection=row,
        name="hidden",
        public_name="one__hidden",
        is_enabled=False,
        is_listed=False,
    )
    refused = client.ask("tools/call", {"name": "hidden"})["error"]
    assert refused["data"]["code"] == "tool_disabled"
    Connection.unscoped.update(definition_policy="block")
    refused = client.ask("tools/call", {"name": "other"})["error"]
    assert refused["data"]["code"] == "unknown_tool"
    assert not server.counts["POST tools/call"]
