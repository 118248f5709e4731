"""Connect sessions: made by an app's back end, used by its end user in a browser."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from unittest.mock import ANY

import pytest
from django.test import Client

from mcphub.core.clock import now
from tenants import connect_sessions, credentials
from tenants.credentials import Shown
from tenants.models import ConnectSession
from tenants.principal import Scope
from tests import factories
from tests.connectors.server_factories import make_connector
from tests.problems import problem, wrong
from tests.world import World, bearer

SESSIONS = "/api/v1/connect-sessions"
CURRENT = "/api/v1/tenants/current"
APP = "https://app.example"
EVIL = "https://evil.example"


def make(client: Client, world: World, **body: Any) -> dict[str, Any]:
    whole = {"endUser": {"id": "u_42"}, **body}
    answer = client.post(
        SESSIONS, whole, content_type="application/json", headers=world.alice.headers
    )
    assert answer.status_code == 201, answer.json()
    return dict(answer.json())


def test_session_answers_token_once_and_is_hashed_at_rest(client: Client, world: World) -> None:
    made = make(client, world, endUser={"id": "u_42", "email": "u@app.example", "displayName": "U"})
    row = ConnectSession.objects.of(world.alice.principal).get()
    assert made == {
        "id": f"cs_{row.id.hex}",
        "token": ANY,
        "expiresAt": ANY,
        "mcpUrl": "http://127.0.0.1:8000/mcp",
    }
    assert made["token"].startswith("mhs_")
    assert made["token"][4:] not in str(row.__dict__)
    assert (row.member.external_id, row.member.email) == ("u_42", "u@app.example")
    assert row.member.display_name == "U"


def test_end_user_acts_with_the_usual_scopes_only(client: Client, world: World) -> None:
    made = make(client, world)
    seen = client.get(CURRENT, headers=bearer(made["token"])).json()
    assert seen["scopes"] == ["servers:connect", "servers:read", "tools:call"]
    assert seen["member"]["externalId"] == "u_42"


def test_limits_of_the_session_are_in_the_principal(client: Client, world: World) -> None:
    make_connector("linear")
    made = make(
        client,
        world,
        allowedConnectors=["linear"],
        allowedOrigins=[APP],
        scopes=["servers:read"],
    )
    shown = Shown(authorization=f"Bearer {made['token']}", origin=APP)
    principal = credentials.resolve(shown)
    assert principal.allowed_connectors == frozenset({"linear"})
    assert principal.allowed_origins == frozenset({APP})
    assert principal.may_add_servers is False
    assert principal.scopes == {Scope.SERVERS_READ}
    assert principal.expires_at is not None


def test_origin_has_to_be_one_of_the_sessions_own(client: Client, world: World) -> None:
    token = make(client, world, allowedOrigins=[APP])["token"]

    def status(**headers: str) -> int:
        return client.get(CURRENT, headers=bearer(token, **headers)).status_code

    assert [status(origin=APP), status(), status(origin="http://127.0.0.1:8000")] == [200, 200, 200]
    refused = client.get(CURRENT, headers=bearer(token, origin=EVIL))
    assert refused.status_code == 403
    assert refused.json() == problem(
        "origin_not_allowed", CURRENT, "This session does not work from this origin."
    )
    assert status(origin=f"{APP}.evil.example") == 403
    assert status(origin="null") == 403


def test_origins_are_the_tenants_when_the_session_names_none(client: Client, world: World) -> None:
    tenant = world.alice.tenant
    tenant.allowed_origins = [APP]
    tenant.save()
    token = make(client, world)["token"]
    answers = [client.get(CURRENT, headers=bearer(token, origin=o)) for o in (APP, EVIL)]
    assert [answer.status_code for answer in answers] == [200, 403]


def test_session_ends_by_time(client: Client, world: World) -> None:
    made = make(client, world)
    row = ConnectSession.unscoped.get()
    row.expires_at = now()
    row.save()
    answer = client.get(CURRENT, headers=bearer(made["token"]))
    assert answer.json() == problem("credential_expired", CURRENT, "This session has expired.")


def test_revoked_session_ends_at_once_and_revoking_twice_is_the_same(
    client: Client, world: World
) -> None:
    made = make(client, world)
    assert client.get(CURRENT, headers=bearer(made["token"])).status_code == 200
    path = f"{SESSIONS}/{made['id']}"
    answers = [client.delete(path, headers=world.alice.headers).status_code for _ in range(2)]
    assert answers == [204, 204]
    assert client.get(CURRENT, headers=bearer(made["token"])).json() == problem(
        "credential_revoked", CURRENT, "This session was revoked."
    )


def test_session_cannot_make_sessions_or_keys(client: Client, world: World) -> None:
    headers = bearer(make(client, world)["token"])
    posts = [
        client.post(path, {}, content_type="application/json", headers=headers)
        for path in (SESSIONS, "/api/v1/api-keys")
    ]
    assert [answer.status_code for answer in posts] == [403, 403]


def test_key_cannot_hand_on_scopes_that_it_lacks(client: Client, world: World) -> None:
    headers = world.alice.headers_with(Scope.CONNECT_SESSIONS_WRITE, Scope.SERVERS_READ)
    body = {"endUser": {"id": "u"}, "scopes": ["servers:read", "tools:call"]}
    answer = client.post(SESSIONS, body, content_type="application/json", headers=headers)
    assert answer.status_code == 403
    assert answer.json() == problem(
        "not_permitted", SESSIONS, "The credential cannot hand on scopes it lacks: tools:call."
    )


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        ({}, [wrong("/endUser", "This field is required.", "required")]),
        (
            {"endUser": {"id": ""}},
            [wrong("/endUser/id", "This field may not be blank.", "blank")],
        ),
        (
            {"endUser": {"id": "u"}, "allowedOrigins": ["https://ok.example", "https://x/y", "*"]},
            [
                wrong("/allowedOrigins/1", "A web origin such as https://app.example."),
                wrong("/allowedOrigins/2", "A web origin such as https://app.example."),
            ],
        ),
        (
            {"endUser": {"id": "u"}, "scopes": ["members:write"]},
            [wrong("/scopes", "Not for end users: members:write.")],
        ),
        (
            {"endUser": {"id": "u"}, "ttlSeconds": 14401},
            [
                wrong(
                    "/ttlSeconds",
                    "Ensure this value is less than or equal to 14400.",
                    "max_value",
                )
            ],
        ),
        (
            {"endUser": {"id": "u"}, "returnUrl": "javascript:alert(1)"},
            [wrong("/returnUrl", "An http(s) address.")],
        ),
        (
            {"endUser": {"id": "u"}, "ttl": 5},
            [wrong("/ttl", "There is no such member.", "unknown_member")],
        ),
        (
            {"endUser": {"id": "u"}, "allowedConnectors": ["a__b"]},
            [wrong("/allowedConnectors/0", "An id of a connector.")],
        ),
    ],
)
def test_wrong_value_is_named_by_its_pointer(
    client: Client, world: World, body: dict[str, Any], errors: list[dict[str, str]]
) -> None:
    answer = client.post(
        SESSIONS, body, content_type="application/json", headers=world.alice.headers
    )
    assert answer.status_code == 422
    assert answer.json() == problem("invalid_input", SESSIONS, errors=errors)


def test_ended_sessions_are_pruned(world: World) -> None:
    for _ in range(2):
        factories.make_connect_session(world.alice.member)
    old = ConnectSession.unscoped.order_by("pk")[0]
    old.expires_at = now() - timedelta(days=2)
    old.save()
    assert connect_sessions.prune() == 1
    assert ConnectSession.unscoped.count() == 1


def test_session_for_connectors_that_the_tenant_does_not_have_is_a_422(
    client: Client, world: World
) -> None:
    make_connector("linear")
    make_connector("own", tenant=world.alice.tenant)
    make_connector("foreign", tenant=world.charlie.tenant)
    named = ["linear", "foreign", "own", "nothing"]
    body = {"endUser": {"id": "u"}, "allowedConnectors": named}
    answer = client.post(
        SESSIONS, body, content_type="application/json", headers=world.alice.headers
    )
    assert answer.status_code == 422
    assert [one["path"] for one in answer.json()["errors"]] == [
        "/allowedConnectors/1",
        "/allowedConnectors/3",
    ]
    assert not ConnectSession.unscoped.exists()
