"""REST of catalogs: listings of one server, tools of all of them, provider formats."""

from __future__ import annotations

from typing import Any
from unittest.mock import ANY

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from connectors import queue
from connectors.models import CatalogListing, Connection, ListingKind
from mcphub.core.clock import now
from tests.connectors.rest import SERVERS, send
from tests.connectors.server_factories import SEARCH, approved, make_connected, make_custom
from tests.problems import problem
from tests.world import World

TOOLS = "/api/v1/tools"
WIRE = {
    **SEARCH,
    "publicName": "mine__search",
    "enabled": True,
    "definition": approved(SEARCH),
    "source": {"serverId": "mine", "name": "search"},
    "trusted": False,
}


pytestmark = pytest.mark.usefixtures("rest")


@pytest.mark.django_db(transaction=True)
def test_tools_are_listed_with_what_could_not_be_used(client: Client, world: World) -> None:
    make_connected(world.alice, "mine")

    answer = client.get(f"{SERVERS}/mine/tools", headers=world.alice.headers)

    assert answer.status_code == 200
    assert answer.json() == {
        "tools": [WIRE],
        "problems": [{"index": 9, "name": None, "reason": "name_missing"}],
        "isComplete": True,
        "error": None,
        "ttlMs": None,
        "fetchedAt": ANY,
    }


@pytest.mark.parametrize(
    ("path", "key", "kind"),
    [
        ("resources", "resources", ListingKind.RESOURCES),
        ("resource-templates", "resourceTemplates", ListingKind.TEMPLATES),
        ("prompts", "prompts", ListingKind.PROMPTS),
    ],
)
@pytest.mark.django_db(transaction=True)
def test_other_lists_keep_every_field_and_say_where_items_are_from(
    client: Client, world: World, path: str, key: str, kind: ListingKind
) -> None:
    row = make_connected(world.alice, "mine")
    empty = client.get(f"{SERVERS}/mine/{path}", headers=world.alice.headers).json()
    CatalogListing.unscoped.create(
        tenant=row.tenant,
        connection=row,
        kind=kind,
        items=[{"name": "a", "x-odd": 1, "trusted": True}],
        ttl_ms=5,
        fetched_at=now(),
    )

    filled = client.get(f"{SERVERS}/mine/{path}", headers=world.alice.headers).json()

    rest: dict[str, Any] = {"problems": [], "error": None}
    source = {"serverId": "mine", "name": "a"}
    assert empty == {key: [], "isComplete": False, "ttlMs": None, "fetchedAt": None, **rest}
    assert filled == {
        key: [{"name": "a", "x-odd": 1, "trusted": False, "source": source}],
        "isComplete": True,
        "ttlMs": 5,
        "fetchedAt": ANY,
        **rest,
    }


@pytest.mark.django_db(transaction=True)
def test_a_refresh_rings_the_holder_and_waits_for_the_new_list(
    client: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_connected(world.alice, "mine", held_by="w1")
    rung: list[tuple[str, queue.EntryKind]] = []

    def holder_reads_again(worker: str, entry: queue.LaneEntry) -> None:
        rung.append((worker, entry.kind))
        CatalogListing.unscoped.update(items=[], fetched_at=now())

    monkeypatch.setattr(queue, "ring", holder_reads_again)

    answer = client.get(f"{SERVERS}/mine/tools?refresh=true", headers=world.alice.headers)

    assert answer.json()["tools"] == []
    assert rung == [("w1", queue.EntryKind.REFRESH)]


@pytest.mark.django_db(transaction=True)
def test_what_is_not_connected_cannot_be_refreshed(client: Client, world: World) -> None:
    make_custom(world.alice, "mine")
    path = f"{SERVERS}/mine/tools"

    refused = client.get(f"{path}?refresh=true", headers=world.alice.headers)
    odd = client.get(f"{path}?refresh=maybe", headers=world.alice.headers)

    assert (refused.status_code, refused.json()) == (409, problem("not_connected", path, ANY))
    assert (odd.status_code, odd.json()["errors"][0]["path"]) == (422, "/refresh")


def test_a_tool_is_switched_off_and_on(client: Client, world: World) -> None:
    row = make_connected(world.alice, "mine")
    path = f"{SERVERS}/mine/tools/search"

    off = send(client, "patch", path, world.alice, {"enabled": False})
    again = send(client, "patch", f"{SERVERS}/mine/tools/mine__search", world.alice, {})
    unknown = send(client, "patch", f"{SERVERS}/mine/tools/no/such", world.alice, {"enabled": True})

    assert off.json() == {**WIRE, "enabled": False}
    assert (again.status_code, again.json()["errors"][0]["path"]) == (422, "/enabled")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "unknown_tool")
    assert Connection.unscoped.get(pk=row.pk).catalog_version == row.catalog_version + 1


def test_tools_of_all_servers_come_with_the_outcome_of_each(
    client: Client, world: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    make_connected(world.alice, "mine")
    make_custom(world.alice, "down", state="error", last_error={"code": "timeout"})
    make_connected(world.bob, "bobs")
    client.get(TOOLS, headers=world.alice.headers)

    with django_assert_num_queries(4):
        answer = client.get(TOOLS, headers=world.alice.headers)

    source = {"problems": [{"index": 9, "name": None, "reason": "name_missing"}]}
    assert answer.json() == {
        "tools": [WIRE],
        "sources": [
            {
                "serverId": "mine",
                "connectionState": "connected",
                "toolCount": 1,
                "error": None,
                "fetchedAt": ANY,
                **source,
            },
            {
                "serverId": "down",
                "connectionState": "error",
                "toolCount": 0,
                "error": {"code": "timeout"},
                "problems": [],
                "fetchedAt": None,
            },
        ],
    }
    cached = {**world.alice.headers, "If-None-Match": answer.headers["ETag"]}
    assert client.get(TOOLS, headers=cached).status_code == 304


def test_tools_are_narrowed_by_server_and_words(client: Client, world: World) -> None:
    make_connected(world.alice, "one", tools=[SEARCH, {"name": "echo"}])
    make_connected(world.alice, "two")

    def names(query: str) -> Any:
        answer = client.get(f"{TOOLS}?{query}", headers=world.alice.headers)
        return [tool["publicName"] for tool in answer.json()["tools"]]

    assert names("servers=two,one") == ["two__search", "one__search", "one__echo"]
    assert names("server=one&q=issues") == ["one__search"]
    assert client.get(f"{TOOLS}?servers=no", headers=world.alice.headers).status_code == 404
    assert client.get(f"{TOOLS}?odd=1", headers=world.alice.headers).status_code == 422


def test_tools_are_exported_with_an_index_and_reasons(client: Client, world: World) -> None:
    tools = [SEARCH, {"name": "bad", "inputSchema": {"type": "array"}}]
    make_connected(world.alice, "mine", tools=tools)

    answer = client.get(f"{TOOLS}?format=anthropic", headers=world.alice.headers)

    assert answer.json() == {
        "format": "anthropic",
        "tools": [
            {
                "name": "mine__search",
                "description": "Finds issues.",
                "input_schema": SEARCH["inputSchema"],
            }
        ],
        "index": {"mine__search": {"serverId": "mine", "name": "search"}},
        "dropped": [{"serverId": "mine", "name": "bad", "reason": "root_not_an_object"}],
        "etag": ANY,
        "sources": ANY,
    }
