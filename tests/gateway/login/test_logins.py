"""What becomes of logins: listed, ended by the person, by the operator, by time."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib import admin
from django.test import Client
from oauth2_provider.models import AccessToken, Grant, RefreshToken

from gateway.login import logins
from gateway.login.models import ClientLogin, DownstreamClient
from gateway.login.tasks import sweep
from mcphub.core.clock import now
from mcphub.core.errors import NotAuthenticatedError
from tenants import credentials
from tests.gateway.login.client_app import Browser, principal_of, registered, works
from tests.gateway.login.client_logins import make_client, make_login
from tests.world import World

pytestmark = pytest.mark.django_db

LOGINS = "/api/v1/client-logins"


def test_person_sees_the_clients_they_let_in(client: Client, world: World) -> None:
    app = registered(name="Desktop")
    tokens = app.sign_in(Browser(person=world.bob))
    app.ask(Browser(person=world.alice))
    works(tokens["access_token"])
    items = client.get(LOGINS, headers=world.bob.headers).json()["items"]
    login = ClientLogin.unscoped.get()
    assert items == [
        {
            "id": str(login.id),
            "clientName": "Desktop",
            "clientHost": "",
            "endpoint": "/mcp",
            "scopes": ["servers:read", "tools:call"],
            "signedInAt": items[0]["signedInAt"],
            "lastUsedAt": items[0]["lastUsedAt"],
        }
    ]
    assert items[0]["lastUsedAt"] is not None
    assert client.get(LOGINS, headers=world.alice.headers).json()["items"] == []


def test_person_signs_a_client_out(client: Client, world: World) -> None:
    app = registered()
    tokens = app.sign_in(Browser(person=world.bob))
    assert works(tokens["access_token"])
    login = ClientLogin.unscoped.get()
    answer = client.delete(f"{LOGINS}/{login.id}", headers=world.bob.headers)
    assert answer.status_code == 204
    assert not works(tokens["access_token"])
    assert app.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    again = client.delete(f"{LOGINS}/{login.id}", headers=world.bob.headers)
    assert again.status_code == 404
    login.refresh_from_db()
    assert login.end_reason == "user"


def test_stream_of_a_client_is_confirmed_by_its_login(world: World) -> None:
    principal = principal_of(registered().sign_in(Browser(person=world.bob))["access_token"])
    assert credentials.confirm(principal).scopes == principal.scopes
    logins.end(ClientLogin.unscoped.get(), logins.EndReason.USER)
    with pytest.raises(NotAuthenticatedError):
        credentials.confirm(principal)


def test_operator_sees_clients_and_logins_and_no_row_of_tokens(
    client: Client, world: World
) -> None:
    registered(name="Desktop").sign_in(Browser(person=world.bob))
    client.force_login(world.root)
    for model in ("downstreamclient", "clientlogin"):
        page = client.get(f"/admin/gateway_login/{model}/")
        assert page.status_code == 200
        assert b"Desktop" in page.content or model == "clientlogin"
    login = ClientLogin.unscoped.get()
    page = client.get(f"/admin/gateway_login/clientlogin/{login.id}/change/")
    assert login.code_digest.encode() not in page.content
    shown = set(admin.site._registry)
    assert shown.isdisjoint({AccessToken, RefreshToken, Grant})


def test_operator_switches_a_client_off_and_on_again(client: Client, world: World) -> None:
    app = registered()
    tokens = app.sign_in(Browser(person=world.bob))
    assert works(tokens["access_token"])
    client.force_login(world.root)
    row = DownstreamClient.objects.get()
    address = "/admin/gateway_login/downstreamclient/"
    client.post(address, {"action": "switch_off", "_selected_action": [row.pk]})
    assert not works(tokens["access_token"])
    assert ClientLogin.unscoped.get().end_reason == "operator"
    client.post(address, {"action": "switch_on", "_selected_action": [row.pk]})
    assert app.ask(Browser(person=world.bob)).status_code == 200


def test_operator_ends_a_login(client: Client, world: World) -> None:
    tokens = registered().sign_in(Browser(person=world.bob))
    client.force_login(world.root)
    login = ClientLogin.unscoped.get()
    sent = {"action": "end", "_selected_action": [str(login.pk)]}
    client.post("/admin/gateway_login/clientlogin/", sent)
    assert not works(tokens["access_token"])


def test_sweep_removes_what_is_past_its_time_and_nothing_else(world: World) -> None:
    app = registered()
    tokens = app.sign_in(Browser(person=world.bob))
    app.code_of(Browser(person=world.bob))  # a code that nobody redeems
    unused, fresh = make_client("unused"), make_client("fresh")
    DownstreamClient.objects.filter(pk=unused.pk).update(created=now() - timedelta(days=2))
    ClientLogin.unscoped.filter(signed_in_at__isnull=True).update(
        created_at=now() - timedelta(hours=1)
    )
    ended = make_login(world.alice)
    logins.end(ended, logins.EndReason.USER)
    ClientLogin.unscoped.filter(pk=ended.pk).update(ended_at=now() - timedelta(days=31))
    Grant.objects.update(expires=now() - timedelta(seconds=1))
    sweep()
    assert works(tokens["access_token"])
    assert not Grant.objects.exists()
    assert not DownstreamClient.objects.filter(pk=unused.pk).exists()
    assert DownstreamClient.objects.filter(pk=fresh.pk).exists()
    assert [login.member_id for login in ClientLogin.unscoped.all()] == [world.bob.member.id]


def test_login_that_is_idle_for_too_long_ends(world: World) -> None:
    app = registered()
    tokens = app.sign_in(Browser(person=world.bob))
    long_ago = now() - timedelta(days=31)
    AccessToken.objects.update(expires=long_ago)
    ClientLogin.unscoped.update(signed_in_at=long_ago)
    assert app.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    sweep()
    assert ClientLogin.unscoped.get().end_reason == "idle"
    assert not AccessToken.objects.exists()
