"""Changed definitions, overridden descriptions and read-only keys, by REST."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.test import Client

from connectors import events, selectors
from connectors.definitions import digest_of
from connectors.models import Connection, ListingKind
from connectors.selectors import ToolView
from connectors.services import catalog, tool_policy
from connectors.services.catalog import FetchedList
from connectors.services.tool_policy import ToolDefinitionChangedError, ToolNotReadOnlyError
from mcphub.core.types import JSONObject, JSONValue
from tenants import api_keys
from tests.connectors.rest import SERVERS, send
from tests.connectors.server_factories import make_connected, make_custom
from tests.problems import problem
from tests.world import World, bearer

pytestmark = [pytest.mark.usefixtures("rest"), pytest.mark.django_db(transaction=True)]

CHANGES = "/api/v1/tool-changes"
READ: JSONValue = {"readOnlyHint": True}


def tool(name: str, description: str = "Reads.", **fields: JSONValue) -> JSONObject:
    return {
        "name": name,
        "description": description,
        "inputSchema": {"type": "object"},
        **fields,
    }


def list_again(row: Connection, *items: JSONObject) -> events.ToolChanges:
    changes = catalog.store(row.pk, [FetchedList(kind=ListingKind.TOOLS, items=items)])
    assert changes is not None
    return changes


def tools_of(world: World) -> dict[str, ToolView]:
    row = selectors.connection_for(world.alice.principal, "mine")
    return {one.name: one for one in selectors.tools_for(world.alice.principal, row)}


def set_policy(client: Client, world: World, policy: str) -> None:
    answer = send(client, "patch", f"{SERVERS}/mine", world.alice, {"definitionPolicy": policy})
    assert (answer.status_code, answer.json()["definitionPolicy"]) == (200, policy)


def changes(client: Client, world: World) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(CHANGES, headers=world.alice.headers).json()
    return found


@pytest.fixture
def mine(world: World) -> Connection:
    row = make_custom(world.alice, "mine")
    list_again(row, tool("a"), tool("b", annotations=READ))
    return row


def test_a_changed_definition_is_listed_with_both_and_stays_callable_under_warn(
    client: Client, world: World, mine: Connection
) -> None:
    found = list_again(mine, tool("a", "Sends everything away."), tool("b", annotations=READ))

    assert found == events.ToolChanges(changed=("a",))
    assert changes(client, world) == [
        {
            "serverId": "mine",
            "name": "a",
            "publicName": "mine__a",
            "definition": {
                "digest": digest_of(tool("a", "Sends everything away.")),
                "standing": "changed",
                "policy": "warn",
                "blocked": False,
            },
            "approved": tool("a"),
            "current": tool("a", "Sends everything away."),
        }
    ]
    tool_policy.check(world.alice.principal, tools_of(world)["a"])


def test_under_block_a_changed_tool_is_neither_called_nor_shown_as_changed_until_approved(
    client: Client, world: World, mine: Connection
) -> None:
    set_policy(client, world, "block")
    changed = tool("a", "Sends everything away.", title="A")
    found = list_again(mine, changed, tool("b", annotations=READ), tool("new"))

    assert found.blocked == ("a", "new")
    blocked = tools_of(world)["a"]
    with pytest.raises(ToolDefinitionChangedError):
        tool_policy.check(world.alice.principal, blocked)
    assert blocked.shown == tool("a", title="A")
    assert [one["name"] for one in changes(client, world)] == ["a", "new"]
    path = f"{SERVERS}/mine/tools/a/approve"
    stale = send(client, "post", path, world.alice, {"digest": digest_of(tool("a"))})
    assert (stale.status_code, stale.json()["code"]) == (409, "definition_moved")

    answer = send(client, "post", path, world.alice, {"digest": digest_of(changed)})

    assert (answer.status_code, answer.json()["definition"]["standing"]) == (200, "approved")
    assert answer.json()["description"] == "Sends everything away."
    tool_policy.check(world.alice.principal, tools_of(world)["a"])
    assert [one["name"] for one in changes(client, world)] == ["new"]


def test_what_changes_back_needs_no_approval(
    client: Client, world: World, mine: Connection
) -> None:
    set_policy(client, world, "block")
    list_again(mine, tool("a", "x"), tool("b", annotations=READ))
    list_again(mine, tool("a", "y"), tool("b", annotations=READ))
    assert changes(client, world)[0]["approved"] == tool("a")
    list_again(mine, tool("a"), tool("b", annotations=READ))
    assert changes(client, world) == []
    tool_policy.check(world.alice.principal, tools_of(world)["a"])


def test_a_member_cannot_weaken_the_policy_of_a_preset(client: Client, world: World) -> None:
    row = make_connected(world.alice, "mine")
    assert row.custom_server is not None
    row.custom_server.definition_policy = "block"
    row.custom_server.save()
    row.definition_policy = "warn"
    row.save()
    assert selectors.definition_policy_of(row) == "block"


def test_a_stranger_approves_nothing(client: Client, world: World, mine: Connection) -> None:
    list_again(mine, tool("a", "x"))
    path = f"{SERVERS}/mine/tools/a/approve"
    answer = send(client, "post", path, world.charlie, {"digest": digest_of(tool("a", "x"))})
    assert (answer.status_code, answer.json()) == (404, problem("not_found", path))
    assert client.get(CHANGES, headers=world.charlie.headers).json() == []


def test_a_description_is_overridden_and_the_servers_own_is_kept(
    client: Client, world: World, mine: Connection
) -> None:
    path = f"{SERVERS}/mine/tools/a"
    shown = send(client, "patch", path, world.alice, {"description": "Ours."}).json()
    assert (shown["description"], shown["originalDescription"]) == ("Ours.", "Reads.")
    assert shown["definition"]["standing"] == "approved"
    listed = client.get("/api/v1/tools?format=openai&q=ours", headers=world.alice.headers).json()
    assert [one["function"]["description"] for one in listed["tools"]] == ["Ours."]
    restored = send(client, "patch", path, world.alice, {"description": None}).json()
    assert restored["description"] == "Reads."
    assert "originalDescription" not in restored


def test_a_read_only_key_sees_and_calls_read_only_tools_only(
    client: Client, world: World, mine: Connection
) -> None:
    new = api_keys.NewKey(name="reader", is_read_only=True)
    headers = bearer(api_keys.issue(world.alice.member, new=new).secret)

    answers = [
        client.get(path, headers=headers).json()
        for path in (f"{SERVERS}/mine/tools", f"{SERVERS}/mine", "/api/v1/tools")
    ]

    assert [[one["name"] for one in body["tools"]] for body in answers] == [["b"]] * 3
    path = f"{SERVERS}/mine/tools/a/call"
    refused = client.post(path, {"arguments": {}}, "application/json", headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (403, "tool_not_read_only")
    allowed = client.post(
        f"{SERVERS}/mine/tools/b/call", {"arguments": {}}, "application/json", headers=headers
    )
    assert allowed.json()["code"] == "not_connected"


def test_a_hint_that_came_with_an_unapproved_change_opens_nothing(
    world: World, mine: Connection
) -> None:
    reader = api_keys.NewKey(name="reader", is_read_only=True)
    api_keys.issue(world.alice.member, new=reader)
    list_again(mine, tool("a", annotations=READ), tool("b", annotations=READ))
    found = tools_of(world)
    assert (found["a"].is_read_only, found["b"].is_read_only) == (False, True)


def test_a_tool_of_an_unread_catalog_is_refused_to_a_read_only_key(world: World) -> None:
    with pytest.raises(ToolNotReadOnlyError):
        tool_policy.check(replace(world.alice.principal, is_read_only=True), None)


def test_a_read_only_key_hands_on_nothing_more(client: Client, world: World) -> None:
    new = api_keys.NewKey(name="reader", is_read_only=True)
    issued = api_keys.issue(world.alice.member, new=new)
    headers = bearer(issued.secret)
    made = client.post("/api/v1/api-keys", {"name": "k"}, "application/json", headers=headers)
    assert made.json()["readOnly"] is True
    other = api_keys.issue(world.alice.member, new=api_keys.NewKey(name="strong")).api_key
    rotated = client.post(f"/api/v1/api-keys/{other.pk}/rotate", headers=headers)
    body = {"endUser": {"id": "u1"}}
    session = client.post("/api/v1/connect-sessions", body, "application/json", headers=headers)
    assert (rotated.status_code, session.status_code) == (403, 403)
