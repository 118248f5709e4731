"""REST of presets, for everybody and for a tenant's admins; storage for react-mcp front ends."""

from __future__ import annotations

from typing import Any
from unittest.mock import ANY

import pytest
from django.test import Client

from connectors import selectors
from connectors.models import Connection, Connector
from connectors.models.sealed import open_json
from tenants.principal import Scope
from tests.connectors.rest import SERVERS, send
from tests.connectors.server_factories import make_connection, make_connector
from tests.problems import problem, wrong
from tests.world import World

CONNECTORS = "/api/v1/connectors"
LIST = "/api/v1/react-mcp/custom-servers"
AUTH = "/api/v1/react-mcp/auth/linear"
NEW = {"id": "linear", "name": "Linear", "url": "https://linear.example/mcp"}


pytestmark = pytest.mark.usefixtures("rest")


def connector_json(**more: Any) -> dict[str, Any]:
    return {
        **NEW,
        "description": "",
        "icon": "",
        "auth": {"type": "none"},
        "transport": "auto",
        "scope": "tenant",
        "hasSecrets": False,
        "enabled": True,
        "order": 100,
        "connectionTimeout": 10000,
        "callTimeout": 60000,
        "autoReconnect": True,
        "elicitation": True,
        "definitionPolicy": "warn",
        "relaySampling": False,
        "relayRoots": False,
        "mayReplayReads": False,
        "createdAt": ANY,
        **more,
    }


def test_presets_are_told_in_the_shape_of_define_connector(client: Client, world: World) -> None:
    make_connector("plain", order=2)
    make_connector(
        "full",
        order=1,
        url="https://full.example/mcp?key=s3cret",
        icon="/static/f.svg",
        auth_type="oauth",
        auth_config={"scopes": ["read"]},
        connect_timeout=2.5,
        relay_elicitation=False,
        secrets={"headers": {"X-Key": "s3cret"}},
    )
    make_connector("off", is_enabled=False)

    answer = client.get(CONNECTORS, headers=world.bob.headers)

    assert answer.json() == [
        {
            "id": "full",
            "name": "Full",
            "url": "https://full.example/mcp",
            "auth": {"type": "oauth", "scopes": ["read"]},
            "icon": "/static/f.svg",
            "connectionTimeout": 2500,
            "elicitation": False,
        },
        {
            "id": "plain",
            "name": "Plain",
            "url": "https://plain.example/mcp",
            "auth": {"type": "none"},
            "connectionTimeout": 10000,
            "elicitation": True,
        },
    ]


def test_an_admin_declares_a_preset_for_the_tenant(client: Client, world: World) -> None:
    body = {
        **NEW,
        "auth": {"type": "headers", "headerNames": ["X-Api-Key"]},
        "secrets": {"headers": {"X-Org": "s3cret"}},
        "order": 3,
    }

    answer = send(client, "post", CONNECTORS, world.alice, body)

    auth = {"type": "headers", "headerNames": ["X-Api-Key"]}
    row = Connector.unscoped.get()
    assert answer.status_code == 201
    assert answer.json() == connector_json(auth=auth, hasSecrets=True, order=3)
    assert answer.headers["Location"] == f"{CONNECTORS}/linear"
    assert open_json(row, "sealed_secrets") == {"headers": {"X-Org": "s3cret"}}
    assert [one.slug for one in selectors.servers_for(world.bob.principal)] == ["linear"]
    assert selectors.servers_for(world.charlie.principal) == []
    again = send(client, "post", CONNECTORS, world.alice, body)
    assert (again.status_code, again.json()["code"]) == (409, "already_exists")


def test_a_preset_is_changed_and_removed_with_its_connections(client: Client, world: World) -> None:
    row = make_connector("linear", tenant=world.alice.tenant, secrets={"headers": {"X": "s"}})
    make_connection(world.bob, row, "linear", credentials={"token": "t"}, is_wanted=True)
    path = f"{CONNECTORS}/linear"

    renamed = send(client, "patch", path, world.alice, {"name": "L", "enabled": True})
    moved = send(client, "patch", path, world.alice, {"url": "https://new.example/mcp"})
    connection = Connection.unscoped.get()
    gone = send(client, "delete", path, world.alice)

    assert renamed.json() == connector_json(name="L", hasSecrets=True)
    assert moved.json() == connector_json(name="L", url="https://new.example/mcp")
    assert (connection.sealed_credentials, connection.is_wanted) == (None, False)
    assert gone.status_code == 204
    assert not Connection.unscoped.exists()


def test_a_preset_that_is_switched_off_ends_its_connections(client: Client, world: World) -> None:
    row = make_connector("linear", tenant=world.alice.tenant)
    make_connection(world.bob, row, "linear", state="connected", is_wanted=True)

    answer = send(client, "patch", f"{CONNECTORS}/linear", world.alice, {"enabled": False})

    connection = Connection.unscoped.get()
    assert answer.json()["enabled"] is False
    assert (connection.state, connection.is_wanted) == ("disconnected", False)
    assert client.get(f"{SERVERS}/linear", headers=world.bob.headers).status_code == 404


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({**NEW, "transport": "stdio"}, "/transport"),
        ({**NEW, "command": ["sh"]}, "/command"),
        ({**NEW, "id": "Li__near"}, "/id"),
        ({**NEW, "icon": "javascript:alert(1)"}, "/icon"),
        ({**NEW, "secrets": {"headers": {"Host": "x"}}}, "/secrets/headers/Host"),
    ],
)
def test_what_cannot_be_a_preset_is_refused(
    client: Client, world: World, body: dict[str, Any], path: str
) -> None:
    answer = send(client, "post", CONNECTORS, world.alice, body)

    assert answer.status_code == 422
    assert [one["path"] for one in answer.json()["errors"]] == [path]


def test_presets_of_the_operator_and_of_strangers_are_not_changed(
    client: Client, world: World
) -> None:
    make_connector("shared")
    make_connector("foreign", tenant=world.charlie.tenant)

    for method in ("patch", "delete"):
        shared = send(client, method, f"{CONNECTORS}/shared", world.alice, {"name": "X"})
        foreign = send(client, method, f"{CONNECTORS}/foreign", world.alice, {"name": "X"})
        assert (shared.status_code, shared.json()["code"]) == (403, "not_permitted")
        assert foreign.json() == problem("not_found", f"{CONNECTORS}/foreign")
    assert set(Connector.unscoped.values_list("name", flat=True)) == {"Shared", "Foreign"}


@pytest.mark.parametrize("method", ["get", "patch", "delete"])
def test_members_manage_no_presets(client: Client, world: World, method: str) -> None:
    make_connector("linear", tenant=world.alice.tenant)

    answer = send(client, method, f"{CONNECTORS}/linear", world.bob)
    created = send(client, "post", CONNECTORS, world.bob, NEW)

    assert (answer.status_code, answer.json()["requiredScope"]) == (403, "connectors:write")
    assert created.status_code == 403


# --- storage for react-mcp ------------------------------------------------------------------------


@pytest.fixture
def storage(settings: Any, world: World) -> dict[str, str]:
    """Headers of a key for the storage, which is switched on."""
    settings.REACT_MCP_STORAGE = True
    return dict(world.alice.headers_with(Scope.STORAGE_REACT_MCP))


def put(client: Client, path: str, value: Any, **headers: str) -> Any:
    return client.put(path, value, content_type="application/json", headers=headers)


def test_the_storage_is_off_unless_the_operator_wants_it(client: Client, world: World) -> None:
    for path in (LIST, AUTH):
        answer = client.get(path, headers=world.alice.headers)
        assert (answer.status_code, answer.json()) == (404, problem("not_found", path))


def test_a_list_is_replaced_only_by_who_has_read_it(
    client: Client, storage: dict[str, str]
) -> None:
    records = [{"id": "a", "name": "A", "url": "https://a.example", "createdAt": 1, "odd": None}]
    empty = client.get(LIST, headers=storage)

    blind = put(client, LIST, records, **storage)
    first = put(client, LIST, records, **storage, **{"If-Match": empty.headers["ETag"]})
    same = put(client, LIST, records, **storage, **{"If-Match": empty.headers["ETag"]})
    stale = put(client, LIST, [], **storage, **{"If-Match": empty.headers["ETag"]})
    fresh = put(client, LIST, [], **storage, **{"If-Match": first.headers["ETag"]})

    assert empty.json() == []
    assert (blind.status_code, blind.json()) == (428, problem("precondition_required", LIST))
    assert (first.status_code, first.json()) == (200, records)
    assert (same.status_code, same.headers["ETag"]) == (200, first.headers["ETag"])
    assert (stale.status_code, stale.json()) == (412, problem("precondition_failed", LIST))
    assert (fresh.status_code, client.get(LIST, headers=storage).json()) == (200, [])


def test_auth_states_keep_what_the_hub_does_not_know(
    client: Client, storage: dict[str, str], world: World
) -> None:
    state = {"tokens": {"access_token": "s3cret"}, "later": [1]}
    unknown = client.get(AUTH, headers=storage)

    saved = put(client, AUTH, state, **storage, **{"If-None-Match": "*"})
    twice = put(client, AUTH, {"x": 1}, **storage, **{"If-None-Match": "*"})
    read = client.get(AUTH, headers=storage)
    other = client.get(AUTH, headers=dict(world.bob.headers_with(Scope.SERVERS_READ)))
    gone = client.delete(AUTH, headers=storage)

    assert unknown.json() == problem("not_found", AUTH)
    assert (saved.status_code, twice.status_code) == (200, 412)
    assert (read.json(), read.headers["ETag"]) == (state, saved.headers["ETag"])
    assert other.status_code == 403
    assert (gone.status_code, client.get(AUTH, headers=storage).status_code) == (204, 404)


@pytest.mark.parametrize(
    ("path", "value", "error"),
    [
        (LIST, {"id": "a"}, wrong("", "A list of at most 500 records.")),
        (LIST, [{"name": "a"}], wrong("/0/id", "Every record has an id.")),
        (AUTH, [1], wrong("", "This has to be an object.")),
    ],
)
def test_records_of_a_wrong_shape_are_refused(
    client: Client, storage: dict[str, str], path: str, value: Any, error: dict[str, str]
) -> None:
    answer = put(client, path, value, **storage, **{"If-Match": '"absent"'})

    assert answer.json() == problem("invalid_input", path, errors=[error])


@pytest.mark.parametrize(
    "config",
    [[1], "text", {"headerNames": "x"}, {"headerNames": [5]}, {"nope": 1}, {"scopes": "a"}],
)
def test_one_preset_that_cannot_be_read_breaks_no_list(
    client: Client, world: World, config: Any
) -> None:
    make_connector("bad", auth_config=config, order=1)
    make_connector("good", order=2)

    servers = client.get(SERVERS, headers=world.bob.headers).json()
    presets = client.get(CONNECTORS, headers=world.bob.headers).json()
    one = client.get(f"{CONNECTORS}/bad", headers=world.alice.headers)

    is_known = config == {"nope": 1}
    assert [row["id"] for row in servers] == ["bad", "good"]
    assert [row["id"] for row in presets] == ["bad", "good"]
    assert one.status_code == 200
    assert (servers[0]["lastError"] or {}).get("code") == (None if is_known else "misconfigured")
    assert servers[1]["lastError"] is None


def test_a_row_without_a_picture_is_left_out_of_the_list(client: Client, world: World) -> None:
    make_connector("bad", transport="pigeon", order=1)
    make_connector("good", order=2)

    servers = client.get(SERVERS, headers=world.bob.headers)

    assert [row["id"] for row in servers.json()] == ["good"]


def test_a_tenants_preset_cannot_take_the_id_of_the_operators(client: Client, world: World) -> None:
    make_connector("linear")
    make_connector("own", tenant=world.alice.tenant)

    made = send(client, "post", CONNECTORS, world.alice, NEW)
    renamed = send(client, "patch", f"{CONNECTORS}/own", world.alice, {"id": "linear"})

    assert made.json() == problem("connector_id_taken", CONNECTORS)
    assert (made.status_code, renamed.status_code) == (409, 409)
    assert Connector.unscoped.count() == 2


def test_a_preset_that_was_there_before_the_operators_can_be_changed(
    client: Client, world: World
) -> None:
    make_connector("linear", tenant=world.alice.tenant)
    make_connector("linear")

    answer = send(client, "patch", f"{CONNECTORS}/linear", world.alice, {"name": "L"})

    assert answer.status_code == 200


@pytest.mark.parametrize(("reconnects", "state"), [(True, "connecting"), (False, "disconnected")])
def test_a_preset_that_is_switched_on_again_connects_what_was_wanted(
    client: Client, world: World, reconnects: bool, state: str
) -> None:
    row = make_connector("linear", tenant=world.alice.tenant, auto_reconnect=reconnects)
    make_connection(world.bob, row, "linear", state="connected", is_wanted=True)
    make_connection(world.alice, row, "linear")
    path = f"{CONNECTORS}/linear"

    for change in ({"enabled": False}, {"name": "Off"}, {"enabled": True}):
        send(client, "patch", path, world.alice, change)

    mine = Connection.unscoped.get(member=world.alice.member)
    bobs = Connection.unscoped.get(member=world.bob.member)
    assert (mine.state, mine.is_wanted) == ("disconnected", False)
    assert (bobs.state, bobs.is_wanted) == (state, reconnects)
    assert (bobs.last_error is None) is reconnects


def test_headers_that_do_not_fit_are_named_where_they_are_in_the_request(
    client: Client, world: World
) -> None:
    make_connector("linear", tenant=world.alice.tenant, auth_type="headers")
    long = {"X-A": "v" * 9000}

    bobs = {"auth": {"type": "headers", "headers": long}}
    of_member = send(client, "patch", f"{SERVERS}/linear", world.bob, bobs)
    body = {"secrets": {"headers": long}}
    of_preset = send(client, "patch", f"{CONNECTORS}/linear", world.alice, body)

    assert [one["path"] for one in of_member.json()["errors"]] == ["/auth/headers/X-A"]
    assert [one["path"] for one in of_preset.json()["errors"]] == ["/secrets/headers/X-A"]
