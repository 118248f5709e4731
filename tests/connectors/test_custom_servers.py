"""Servers and accounts of members: ids, limits, credentials that fit, and what may be removed."""

from __future__ import annotations

import re

import pytest

from connectors import names, selectors
from connectors.models import CustomServer
from connectors.services import connections, custom_servers
from mcphub.core.errors import BlockedUrlError, InvalidInputError, LimitError
from mcphub.core.types import JSONObject
from tests.connectors import server_factories
from tests.connectors.session_stack import add_server
from tests.world import World

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_preset_gets_its_row_on_first_need(world: World) -> None:
    server_factories.make_connector("linear")
    first = connections.ensure(world.alice.principal, "linear")
    assert connections.ensure(world.alice.principal, "linear").pk == first.pk
    assert connections.ensure(world.bob.principal, "linear").pk != first.pk


def test_a_preset_cannot_be_removed_but_its_second_account_can(world: World) -> None:
    server_factories.make_connector("linear")
    own = connections.ensure(world.alice.principal, "linear")
    second = connections.add_named(world.alice.principal, own, "Work account")
    assert (second.slug, second.name) == ("linear-work-account", "Work account")
    with pytest.raises(connections.ConnectorNotRemovableError):
        connections.remove(world.alice.principal, own)
    connections.remove(world.alice.principal, second)
    assert list(selectors.rows_for(world.alice.principal)) == [own]


def test_the_second_account_of_a_custom_server_keeps_it_alive(world: World) -> None:
    first = add_server(world.alice.principal, "http://127.0.0.1:9/mcp", name="Wiki")
    second = connections.add_named(world.alice.principal, first, "Other")
    connections.remove(world.alice.principal, first)
    assert [row.slug for row in selectors.rows_for(world.alice.principal)] == [second.slug]
    assert CustomServer.unscoped.count() == 1


def test_server_ids_are_unique_for_a_member_and_never_those_of_presets(world: World) -> None:
    server_factories.make_connector("wiki")
    url = "http://127.0.0.1:9/mcp"
    names = [add_server(world.alice.principal, url, name="Wiki").slug for _ in range(2)]
    assert names == ["wiki-2", "wiki-3"]
    assert add_server(world.bob.principal, url, name="Wiki").slug == "wiki-2"
    new = custom_servers.NewServer(name="x", url=url, slug="wiki-2")
    with pytest.raises(custom_servers.SlugTakenError):
        custom_servers.create_custom_server(world.alice.principal, new)


@pytest.mark.parametrize(
    ("credentials", "auth_type", "paths"),
    [
        ({"headers": {"Host": "evil"}}, "headers", ["/auth/headers/Host"]),
        ({"headers": {"Mcp-Session-Id": "1"}}, "headers", ["/auth/headers/Mcp-Session-Id"]),
        ({"headers": {"X": "a\r\nY: b"}}, "headers", ["/auth/headers/X"]),
        ({"headers": {"X Y": "a"}}, "headers", ["/auth/headers/X Y"]),
        ({"headers": ["a"]}, "headers", ["/auth/headers"]),
        ({"token": "a"}, "headers", ["/auth/token"]),
        ({"token": ""}, "bearer", ["/auth/token"]),
        ({"password": "a"}, "bearer", ["/auth/password"]),
    ],
)
def test_credentials_that_cannot_be_sent_are_refused(
    world: World, credentials: JSONObject, auth_type: str, paths: list[str]
) -> None:
    row = add_server(world.alice.principal, "http://127.0.0.1:9/mcp", auth_type=auth_type)
    with pytest.raises(InvalidInputError) as caught:
        connections.set_credentials(world.alice.principal, row, credentials)
    assert [problem.path for problem in caught.value.problems] == paths


def test_addresses_of_the_inside_cannot_be_added(world: World) -> None:
    with pytest.raises(BlockedUrlError):
        add_server(world.alice.principal, "http://169.254.169.254/mcp")


@pytest.mark.parametrize(
    "name", ["天气 预报", "☂ Weather ☂", "Ünïcode  Spaces", "-- --", "x" * 120]
)
def test_f15_the_id_of_a_server_fits_into_tool_names_whatever_it_is_called(
    world: World, name: str
) -> None:
    row = add_server(world.alice.principal, "http://127.0.0.1:9/mcp", name=name)
    public = names.assign(row.slug, ["search"], {})["search"]
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", public)


def test_a_custom_server_is_never_a_local_command(world: World) -> None:
    with pytest.raises(InvalidInputError):
        add_server(world.alice.principal, "http://127.0.0.1:9/mcp", transport="stdio")


def test_limits_of_a_tenant_hold(world: World) -> None:
    tenant = world.alice.tenant
    tenant.max_custom_servers, tenant.max_connections = 2, 1
    tenant.save()
    url = "http://127.0.0.1:9/mcp"
    first, second = (add_server(world.alice.principal, url) for _ in range(2))
    with pytest.raises(LimitError):
        add_server(world.bob.principal, url)
    connections.connect(world.alice.principal, first)
    with pytest.raises(LimitError):
        connections.connect(world.alice.principal, second)
    assert add_server(world.charlie.principal, url).slug


@pytest.mark.parametrize("is_account", [False, True])
def test_an_id_that_was_taken_meanwhile_is_made_anew(
    world: World, monkeypatch: pytest.MonkeyPatch, *, is_account: bool
) -> None:
    principal, url = world.alice.principal, "http://127.0.0.1:9/mcp"
    first = add_server(principal, url, name="Linear")
    if is_account:
        connections.add_named(principal, first, "work")
    read = selectors.taken_slugs
    stale: list[set[str]] = [set(), set()]
    monkeypatch.setattr(selectors, "taken_slugs", lambda who: stale.pop() if stale else read(who))

    if is_account:
        row = connections.add_named(principal, first, "work")
    else:
        row = add_server(principal, url, name="Linear")

    assert row.slug == ("linear-work-2" if is_account else "linear-2")
    assert not stale


def test_an_id_that_was_asked_for_and_taken_meanwhile_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    principal, url = world.alice.principal, "http://127.0.0.1:9/mcp"
    add_server(principal, url, name="Linear")
    monkeypatch.setattr(selectors, "taken_slugs", lambda who: set())
    with pytest.raises(custom_servers.SlugTakenError):
        custom_servers.create_custom_server(
            principal, custom_servers.NewServer(name="L", url=url, slug="linear")
        )
