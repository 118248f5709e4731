"""The tenant gate: who sees which server, tool and call, at what cost."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from uuid import uuid4

import pytest
from asgiref.sync import async_to_sync
from pytest_django import DjangoAssertNumQueries

from connectors import selectors
from connectors.models import CatalogTool, Connection, ListingKind
from connectors.selectors import CallFilter, NotConnectedError, UnknownToolError, hot
from connectors.selectors.hot import Found
from connectors.selectors.usage import figures_for
from connectors.server_spec import Era, Relay, ServerSpec, Transport
from connectors.states import State
from mcphub.core.crypto import CredentialUnreadableError, Secret
from mcphub.core.errors import NotFoundError
from tenants.principal import Principal
from tests.connectors.server_factories import (
    SEARCH,
    approved,
    make_call,
    make_connected,
    make_connection,
    make_connector,
    make_custom,
)
from tests.world import World, world

__all__ = ["world"]

pytestmark = pytest.mark.usefixtures("rest")

target_of = async_to_sync(selectors.connection_for_call)
public_target_of = async_to_sync(selectors.public_tool_for_call)


def test_presets_come_first_in_their_order_then_own_servers_by_age(world: World) -> None:
    make_connector("zeta", order=1)
    make_connector("alpha", order=2)
    make_connector("hidden", is_enabled=False)
    make_connector("acme", order=3, tenant=world.alice.tenant)
    make_connector("foreign", tenant=world.charlie.tenant)
    make_custom(world.alice, "mine")
    make_custom(world.bob, "bobs")

    servers = selectors.servers_for(world.alice.principal)

    assert [(server.slug, server.kind, server.state) for server in servers] == [
        ("zeta", "connector", State.DISCONNECTED),
        ("alpha", "connector", State.DISCONNECTED),
        ("acme", "connector", State.DISCONNECTED),
        ("mine", "custom", State.DISCONNECTED),
    ]
    assert Connection.unscoped.filter(connector__isnull=False).count() == 0


def test_listing_servers_costs_five_queries_however_many_there_are(
    world: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(5):
        make_connected(world.alice, f"own{number}")
        make_connector(f"preset{number}")

    with django_assert_num_queries(5):
        servers = selectors.servers_for(world.alice.principal)

    assert [len(server.tools) for server in servers] == [0] * 5 + [1] * 5


def test_listing_servers_costs_two_more_queries_where_some_sign_in(
    world: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(3):
        make_custom(world.alice, f"own{number}", state="auth_required", signs_in=True)

    with django_assert_num_queries(7):
        servers = selectors.servers_for(world.alice.principal)

    assert {server.auth.type.value for server in servers} == {"oauth"}


@pytest.mark.parametrize("slug", ["unknown", "bobs", "foreign", "off", "no such id", ""])
def test_unknown_and_foreign_servers_are_not_found_alike(world: World, slug: str) -> None:
    make_custom(world.bob, "bobs")
    make_custom(world.charlie, "foreign")
    make_connector("off", is_enabled=False)

    with pytest.raises(NotFoundError) as caught:
        selectors.connection_for(world.alice.principal, slug)

    assert (caught.value.problem_code, caught.value.detail, caught.value.extra) == (
        "not_found",
        NotFoundError.title,
        {},
    )


def test_a_preset_of_the_tenant_takes_the_place_of_the_global_one(world: World) -> None:
    make_connector("linear", url="https://global.example/mcp")
    make_connector("linear", url="https://acme.example/mcp", tenant=world.alice.tenant)

    urls = {
        person.user.username: [s.url for s in selectors.servers_for(person.principal)]
        for person in (world.alice, world.charlie)
    }

    assert [*urls.values()] == [["https://acme.example/mcp"], ["https://global.example/mcp"]]


def test_a_preset_whose_id_is_taken_by_an_own_server_gets_another_one(world: World) -> None:
    make_custom(world.alice, "linear")
    preset = make_connector("linear")

    before = [server.slug for server in selectors.servers_for(world.alice.principal)]
    virtual = selectors.connection_for(world.alice.principal, "linear-2")
    make_connection(world.alice, preset, "linear-2")
    after = [server.slug for server in selectors.servers_for(world.alice.principal)]

    assert selectors.is_virtual(virtual)
    assert virtual.connector == preset
    assert before == after == ["linear-2", "linear"]


def test_a_named_connection_does_not_hide_the_preset(world: World) -> None:
    preset = make_connector("linear")
    make_connection(world.alice, preset, "linear-work", name="Work")

    servers = selectors.servers_for(world.alice.principal)

    assert [(server.slug, server.name) for server in servers] == [
        ("linear", "Linear"),
        ("linear-work", "Work"),
    ]


def test_a_connect_session_sees_only_its_connectors(world: World) -> None:
    linear = make_connector("linear")
    github = make_connector("github")
    made = make_connection(world.alice, linear, "linear")
    other = make_connection(world.alice, github, "github")
    own = make_custom(world.alice, "mine")
    call = make_call(world.alice, other)
    make_call(world.alice, made)
    limited = replace(
        world.alice.principal, allowed_connectors=frozenset({"linear"}), may_add_servers=False
    )
    may_add = replace(limited, may_add_servers=True)

    assert [server.slug for server in selectors.servers_for(limited)] == ["linear"]
    assert [server.slug for server in selectors.servers_for(may_add)] == ["linear", "mine"]
    assert [row.server for row in selectors.calls_for(limited)] == ["linear"]
    for slug in ("github", own.slug):
        with pytest.raises(NotFoundError):
            selectors.connection_for(limited, slug)
    with pytest.raises(NotFoundError):
        selectors.call_for(limited, call.pk)


def test_tools_keep_every_field_of_the_server_and_are_marked_untrusted(world: World) -> None:
    row = make_connected(world.alice, "mine", tools=[{**SEARCH, "trusted": True, "enabled": 7}])

    (tool,) = selectors.tools_for(world.alice.principal, row)

    assert tool.wire == {
        **SEARCH,
        "publicName": "mine__search",
        "enabled": True,
        "definition": approved(SEARCH),
        "source": {"serverId": "mine", "name": "search"},
        "trusted": False,
    }


def test_tools_of_all_says_how_every_server_contributed(
    world: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    row = make_connected(world.alice, "good", tools=[SEARCH, {"name": "echo"}])
    make_custom(world.alice, "broken", state="error", last_error={"code": "timeout"})

    with django_assert_num_queries(4):
        found = selectors.tools_of_all(world.alice.principal)
    searched = selectors.tools_of_all(world.alice.principal, ["good"], "FINDS search")

    fetched = row.listings.get(kind=ListingKind.TOOLS).fetched_at
    assert [tool.public_name for tool in found.tools] == ["good__search", "good__echo"]
    assert [
        (s.server, s.state, s.tool_count, s.error, s.fetched_at, len(s.problems))
        for s in found.sources
    ] == [
        ("good", State.CONNECTED, 2, None, fetched, 1),
        ("broken", State.ERROR, 0, {"code": "timeout"}, None, 0),
    ]
    assert [tool.name for tool in searched.tools] == ["search"]
    with pytest.raises(NotFoundError):
        selectors.tools_of_all(world.alice.principal, ["good", "nobodys"])


def test_calls_are_the_members_own_and_can_be_narrowed(world: World) -> None:
    row = make_connected(world.alice, "mine")
    first = make_call(world.alice, row, status="sent")
    second = make_call(world.alice, row, status="failed", method="resources/read")
    make_call(world.bob, row)
    principal = world.alice.principal

    def ids(**narrow: object) -> list[object]:
        return [call.pk for call in selectors.calls_for(principal, CallFilter(**narrow))]  # type: ignore[arg-type]

    assert ids() == [second.pk, first.pk]
    assert ids(status="running") == [first.pk]
    assert ids(method="resources/read") == [second.pk]
    assert ids(server="other") == []
    assert ids(since=second.created_at) == [second.pk]
    for unknown in (uuid4(), make_call(world.bob, row).pk):
        with pytest.raises(NotFoundError):
            selectors.call_for(principal, unknown)


def test_a_spec_carries_the_operators_and_the_members_secrets(world: World) -> None:
    preset = make_connector(
        "linear",
        auth_type="bearer",
        secrets={"headers": {"X-Org": "acme", "Authorization": "Bearer operator"}},
        connect_timeout=3.0,
        detected_era="modern",
    )
    row = make_connection(world.alice, preset, "linear", credentials={"token": "mine"})

    spec = selectors.spec_for(row)

    assert spec == ServerSpec(
        connection_id=row.pk,
        tenant_id=world.alice.tenant.pk,
        member_id=world.alice.member.pk,
        slug="linear",
        url="https://linear.example/mcp",
        transport=Transport.AUTO,
        headers={"X-Org": Secret("acme"), "Authorization": Secret("Bearer mine")},
        era_hint=Era.MODERN,
        connect_timeout=3.0,
        call_timeout=60.0,
        relays=frozenset({Relay.ELICITATION}),
    )
    assert selectors.secret_texts(spec) == ["acme", "Bearer mine", "mine"]
    assert "mine" not in repr(spec)


def test_credentials_of_another_row_do_not_open(world: World) -> None:
    first = make_custom(world.alice, "one", auth_type="bearer", credentials={"token": "t"})
    second = make_custom(world.alice, "two", auth_type="bearer")
    second.sealed_credentials = first.sealed_credentials

    with pytest.raises(CredentialUnreadableError):
        selectors.spec_for(second)


@pytest.mark.django_db(transaction=True)
def test_where_a_call_goes_is_read_once_and_then_known(world: World) -> None:
    row = make_connected(world.alice, "mine")
    principal = world.alice.principal

    first = target_of(principal, "mine", "search")
    CatalogTool.unscoped.all().delete()
    again = target_of(principal, "mine", "mine__search")

    assert again == first
    assert first.connection == selectors.connection_view(row)
    assert first.tool is not None
    assert first.tool.item == SEARCH
    with pytest.raises(UnknownToolError):
        target_of(principal, "mine", "nothing")
    selectors.targets.forget(principal, "mine")
    with pytest.raises(UnknownToolError):
        target_of(principal, "mine", "search")


@pytest.mark.django_db(transaction=True)
def test_callers_share_a_load_that_takes_longer_than_it_stays_fresh(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_connected(world.alice, "mine")
    reads, everybody_asked = [], threading.Event()

    def slow(principal: Principal, slug: str) -> Connection:
        reads.append(slug)
        everybody_asked.wait(5.0)
        return selectors.connection_for(principal, slug)

    async def burst() -> list[Found]:
        find = selectors.targets.find
        asked = [asyncio.ensure_future(find(world.alice.principal, "mine")) for _ in range(5)]
        asyncio.get_running_loop().call_soon(everybody_asked.set)
        return await asyncio.gather(*asked)

    monkeypatch.setattr(hot, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(hot, "connection_for", slow)
    found = asyncio.run(burst())

    assert len(found) == 5
    assert reads == ["mine"]


@pytest.mark.django_db(transaction=True)
def test_the_hot_path_has_the_same_gate(world: World) -> None:
    make_connected(world.bob, "bobs")
    make_connector("linear")
    principal = world.alice.principal

    for slug in ("bobs", "unknown"):
        with pytest.raises(NotFoundError):
            target_of(principal, slug, "search")
    with pytest.raises(NotConnectedError):
        target_of(principal, "linear", "search")


@pytest.mark.django_db(transaction=True)
def test_a_server_that_was_just_connected_can_be_called_at_once(world: World) -> None:
    row = make_connected(world.alice, "mine", state="connecting")
    principal = world.alice.principal

    before = target_of(principal, "mine", "search")
    Connection.unscoped.filter(pk=row.pk).update(state="connected", held_by="w1")
    after = target_of(principal, "mine", "search")

    assert (before.connection.state, before.connection.held_by) == (State.CONNECTING, "")
    assert (after.connection.state, after.connection.held_by) == (State.CONNECTED, "w1")


@pytest.mark.django_db(transaction=True)
def test_a_public_name_leads_to_its_server_and_a_bare_one_nowhere(world: World) -> None:
    make_connected(world.alice, "mine")
    make_connected(world.bob, "bobs")
    principal = world.alice.principal
    limited = replace(principal, allowed_connectors=frozenset({"linear"}), may_add_servers=False)

    found = public_target_of(principal, "mine__search")

    assert (found.connection.slug, found.tool and found.tool.name) == ("mine", "search")
    for unknown in ("search", "bobs__search", "mine__nothing"):
        with pytest.raises(UnknownToolError):
            public_target_of(principal, unknown)
    with pytest.raises(NotFoundError):
        public_target_of(limited, "mine__search")


def test_usage_counts_the_tenants_servers_and_calls_and_names_its_limits(world: World) -> None:
    make_custom(world.alice, state="connected")
    make_custom(world.bob)
    make_custom(world.charlie)
    figures = figures_for(world.alice.principal)
    assert figures == {
        "connections": 2,
        "connected": 1,
        "customServers": 2,
        "callsInFlight": 0,
        "callsLastDay": 0,
        "limits": {
            "connections": world.alice.tenant.max_connections,
            "customServers": world.alice.tenant.max_custom_servers,
            "concurrentCalls": world.alice.tenant.max_concurrent_calls,
            "callsPerMinute": world.alice.tenant.calls_per_minute,
        },
    }
