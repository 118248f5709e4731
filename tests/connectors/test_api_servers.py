"""REST of servers: presets and own ones, credentials that never come out, who may do what."""

from __future__ import annotations

from typing import Any
from unittest.mock import ANY

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from connectors import selectors
from connectors.models import Connection, CustomServer, TimelineEntry
from mcphub.core.clock import now
from tests.connectors.rest import SERVERS, send, server_json
from tests.connectors.server_factories import (
    SEARCH,
    approved,
    make_connected,
    make_connector,
    make_custom,
)
from tests.problems import problem, wrong
from tests.world import World

OWN = {"name": "My Tools", "url": "https://mine.example/mcp"}


pytestmark = pytest.mark.usefixtures("rest")


def test_every_server_is_listed_with_its_tools(client: Client, world: World) -> None:
    make_connector("linear", url="https://linear.example/mcp?key=s3cret", icon="/static/l.svg")
    make_connected(world.alice, "mine")
    make_custom(world.bob, "bobs")

    answer = client.get(SERVERS, headers=world.alice.headers)

    tool = {
        **SEARCH,
        "publicName": "mine__search",
        "enabled": True,
        "definition": approved(SEARCH),
        "source": {"serverId": "mine", "name": "search"},
        "trusted": False,
    }
    assert answer.status_code == 200
    assert answer.json() == [
        server_json("linear", kind="connector", connector="linear", icon="/static/l.svg"),
        server_json(
            "mine",
            connectionState="connected",
            connectedAt=ANY,
            protocolVersion="2025-11-25",
            catalogVersion=1,
            tools=[tool],
        ),
    ]
    assert answer.headers["X-Mcphub-Seq"] == str(answer.json()[0]["seq"])


def test_g11_what_the_operator_configured_of_a_preset_is_not_shown(
    client: Client, world: World
) -> None:
    operators = ("https://linear.example/mcp?key=s3cret", "X-Operator", "s3cret-of-the-operator")
    make_connector("linear", url=operators[0], secrets={"headers": {operators[1]: operators[2]}})
    for person in (world.alice, world.bob):
        shown = [
            client.get(path, headers=person.headers).content.decode()
            for path in (SERVERS, f"{SERVERS}/linear", "/api/v1/connectors")
        ]
        assert [text for text in operators for page in shown if text in page] == []


def test_an_unchanged_list_is_not_sent_again(client: Client, world: World) -> None:
    make_custom(world.alice, "mine")
    etag = client.get(SERVERS, headers=world.alice.headers).headers["ETag"]

    same = client.get(SERVERS, headers={**world.alice.headers, "If-None-Match": etag})
    make_custom(world.alice, "other")
    other = client.get(SERVERS, headers={**world.alice.headers, "If-None-Match": etag})

    assert (same.status_code, same.content) == (304, b"")
    assert (other.status_code, other.headers["ETag"] != etag) == (200, True)


def test_listing_costs_the_same_however_many_servers_there_are(
    client: Client, world: World, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(6):
        make_connected(world.alice, f"own{number}")
        make_connector(f"preset{number}")
    client.get(SERVERS, headers=world.alice.headers)

    with django_assert_max_num_queries(5):
        client.get(SERVERS, headers=world.alice.headers)


def test_an_own_server_is_added_with_an_id_of_its_name(client: Client, world: World) -> None:
    body = {
        **OWN,
        "auth": {"type": "bearer", "token": "t0p-s3cret"},
        "connectionTimeout": 2500,
        "elicitation": False,
    }

    answer = send(client, "post", SERVERS, world.alice, body)

    auth = {"type": "bearer", "hasCredentials": True, "headerNames": [], "scopes": []}
    row = selectors.connection_for(world.alice.principal, "my-tools")
    assert answer.status_code == 201
    assert answer.headers["Location"] == "/api/v1/servers/my-tools"
    assert answer.json() == server_json(
        "my-tools",
        name="My Tools",
        url="https://mine.example/mcp",
        auth=auth,
        connectionTimeout=2500,
        elicitation=False,
    )
    assert selectors.secret_texts(selectors.spec_for(row)) == ["Bearer t0p-s3cret", "t0p-s3cret"]
    assert b"s3cret" not in client.get(SERVERS, headers=world.alice.headers).content


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        ({}, ["/name", "/url"]),
        ({**OWN, "odd": 1}, ["/odd"]),
        ({**OWN, "url": "ftp://a.example/"}, ["/url"]),
        ({**OWN, "id": "Bad__id"}, ["/id"]),
        ({**OWN, "id": "a" * 25}, ["/id"]),
        ({**OWN, "transport": "stdio"}, ["/transport"]),
        ({**OWN, "auth": {"type": "magic"}}, ["/auth/type"]),
        ({**OWN, "auth": {"type": "none", "token": "t"}}, ["/auth/token"]),
        ({**OWN, "auth": {"type": "bearer", "token": "a b\n"}}, ["/auth/token"]),
        ({**OWN, "auth": {"type": "headers", "headers": {"Host": "x"}}}, ["/auth/headers/Host"]),
        ({**OWN, "auth": {"type": "headers", "headers": {"X": "a\nb"}}}, ["/auth/headers/X"]),
        ({**OWN, "connectionTimeout": 1}, ["/connectionTimeout"]),
    ],
)
def test_what_cannot_be_a_server_is_refused_with_the_place(
    client: Client, world: World, body: dict[str, Any], errors: list[str]
) -> None:
    answer = send(client, "post", SERVERS, world.alice, body)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")
    assert [one["path"] for one in answer.json()["errors"]] == errors
    assert not CustomServer.unscoped.exists()


@pytest.mark.parametrize(
    "url",
    [
        "https://10.0.0.1/mcp",
        "https://169.254.169.254/latest",
        "http://public.example/mcp",
        "https://user:pw@public.example/mcp",
        "https://public.example:22/mcp",
    ],
)
def test_addresses_that_may_not_be_called_are_refused(
    client: Client, world: World, url: str, settings: Any
) -> None:
    settings.EGRESS_ALLOW_LOOPBACK = False

    answer = send(client, "post", SERVERS, world.alice, {**OWN, "url": url})

    assert (answer.status_code, answer.json()["code"]) == (400, "blocked_url")
    assert not CustomServer.unscoped.exists()


def test_an_id_that_is_taken_is_refused(client: Client, world: World) -> None:
    make_custom(world.alice, "mine")

    answer = send(client, "post", SERVERS, world.alice, {**OWN, "id": "mine"})

    assert (answer.status_code, answer.json()) == (409, problem("server_id_taken", SERVERS))


def test_oauth_takes_a_client_of_the_members_own_and_shows_no_secret(
    client: Client, world: World
) -> None:
    auth = {"type": "oauth", "scopes": ["a"], "clientId": "me", "clientSecret": "s3cret"}

    answer = send(client, "post", SERVERS, world.alice, {**OWN, "auth": auth})

    assert answer.status_code == 201
    assert answer.json()["auth"] == {
        "type": "oauth",
        "hasCredentials": False,
        "headerNames": [],
        "scopes": ["a"],
        "grantedScopes": [],
        "signedInAs": None,
        "issuer": None,
        "expiresAt": None,
        "forecast": None,
        "authorizationRequest": None,
    }
    spec = selectors.spec_for(Connection.unscoped.get(slug=answer.json()["id"]))
    assert spec.oauth is not None
    assert (spec.oauth.client_id, spec.oauth.scopes) == ("me", ("a",))
    assert "s3cret" not in repr(spec) + answer.content.decode()


@pytest.mark.django_db(transaction=True)
def test_completing_an_unknown_sign_in_is_refused(client: Client, world: World) -> None:
    make_custom(world.alice, "mine")
    path = f"{SERVERS}/mine/complete-auth"

    answer = send(client, "post", path, world.alice, {"callbackUrl": "https://x/?state=s&code=c"})

    assert (answer.status_code, answer.json()["code"]) == (400, "authorization_state_invalid")


def test_another_address_drops_what_belongs_to_the_old_one(client: Client, world: World) -> None:
    make_connected(world.alice, "mine", auth_type="bearer", credentials={"token": "old"})

    answer = send(
        client, "patch", f"{SERVERS}/mine", world.alice, {"url": "https://other.example/mcp"}
    )

    auth = {"type": "bearer", "hasCredentials": False, "headerNames": [], "scopes": []}
    assert answer.status_code == 200
    assert answer.json() == server_json(
        "mine", url="https://other.example/mcp", auth=auth, catalogVersion=ANY
    )


def test_the_kind_of_authentication_changes_with_its_credentials(
    client: Client, world: World
) -> None:
    make_custom(world.alice, "mine")
    auth = {"type": "headers", "headers": {"X-Api-Key": "k"}}

    answer = send(client, "patch", f"{SERVERS}/mine", world.alice, {"auth": auth, "name": "New"})

    row = selectors.connection_for(world.alice.principal, "mine")
    spec = selectors.spec_for(row)
    assert (answer.json()["name"], answer.json()["auth"]["type"]) == ("New", "headers")
    assert [(name, secret.value) for name, secret in spec.headers.items()] == [("X-Api-Key", "k")]


def test_a_member_brings_the_token_that_a_preset_asks_for(client: Client, world: World) -> None:
    make_connector("linear", auth_type="bearer")
    path = f"{SERVERS}/linear"

    given = send(client, "patch", path, world.alice, {"auth": {"type": "bearer", "token": "mine"}})
    unfit = send(client, "patch", path, world.alice, {"auth": {"type": "none"}})
    refused = send(client, "patch", path, world.alice, {"url": "https://evil.example/"})

    assert given.json()["auth"]["hasCredentials"] is True
    assert unfit.json()["errors"] == [wrong("/auth/type", "This server takes bearer.", "unfit")]
    assert refused.json()["errors"] == [wrong("/url", "The preset decides this.", "of_preset")]


def test_own_servers_are_removed_and_presets_are_not(client: Client, world: World) -> None:
    make_connector("linear")
    make_custom(world.alice, "mine")

    gone = send(client, "delete", f"{SERVERS}/mine", world.alice)
    kept = send(client, "delete", f"{SERVERS}/linear", world.alice)

    assert gone.status_code == 204
    assert not CustomServer.unscoped.exists()
    assert kept.status_code == 409
    assert kept.json()["code"] == "connector_not_removable"


def test_a_further_account_has_its_own_id_and_credentials(client: Client, world: World) -> None:
    make_connector("linear", auth_type="bearer")
    body = {"name": "Work", "auth": {"type": "bearer", "token": "w"}}

    answer = send(client, "post", f"{SERVERS}/linear/connections", world.alice, body)
    listed = client.get(SERVERS, headers=world.alice.headers).json()

    assert answer.status_code == 201
    assert answer.json()["id"] == "linear-work"
    assert [(one["id"], one["name"], one["auth"]["hasCredentials"]) for one in listed] == [
        ("linear", "Linear", False),
        ("linear-work", "Work", True),
    ]


def test_disconnecting_can_forget_the_credentials(client: Client, world: World) -> None:
    make_connected(world.alice, "mine", auth_type="bearer", credentials={"token": "t"})
    path = f"{SERVERS}/mine/disconnect"

    kept = send(client, "post", path, world.alice)
    forgotten = send(client, "post", path, world.alice, {"forget": True})

    assert (kept.json()["connectionState"], kept.json()["auth"]["hasCredentials"]) == (
        "disconnected",
        True,
    )
    assert forgotten.json()["auth"]["hasCredentials"] is False


def test_the_timeline_is_told_newest_first(client: Client, world: World) -> None:
    row = make_custom(world.alice, "mine")
    for kind in ("first", "second"):
        TimelineEntry.unscoped.create(
            tenant=world.alice.tenant, connection=row, at=now(), kind=kind, detail={"n": 1}
        )

    answer = client.get(f"{SERVERS}/mine/timeline", headers=world.alice.headers)

    assert answer.json() == [
        {"id": ANY, "at": ANY, "kind": kind, "detail": {"n": 1}} for kind in ("second", "first")
    ]


@pytest.mark.parametrize(
    ("auth", "path"),
    [
        ({"type": "bearer", "token": 5}, "/auth/token"),
        ({"type": "headers", "headers": {"X-A": 5}}, "/auth/headers/X-A"),
        ({"type": "none", "scopes": ["a", 5]}, "/auth/scopes/1"),
    ],
)
def test_a_number_is_no_secret(
    client: Client, world: World, auth: dict[str, Any], path: str
) -> None:
    body = {"name": "L", "url": "https://linear.example/mcp", "auth": auth}
    answer = send(client, "post", SERVERS, world.alice, body)
    assert answer.status_code == 422
    assert [one["path"] for one in answer.json()["errors"]] == [path]
