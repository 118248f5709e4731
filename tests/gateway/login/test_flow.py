"""An MCP client signs in: registration, consent, tokens, refresh, revocation."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.test import Client
from pytest_django.fixtures import Settings

from gateway.login.models import ClientLogin
from tenants.principal import Scope
from tests import factories
from tests.gateway.login.client_app import (
    AUTHORIZE,
    REGISTER,
    REVOKE,
    TOKEN,
    Browser,
    parameters_of,
    principal_of,
    registered,
    works,
)
from tests.world import World

pytestmark = pytest.mark.django_db

METADATA = "/.well-known/oauth-authorization-server"


def test_metadata_tells_what_is_offered_and_nothing_weaker(client: Client) -> None:
    answer = client.get(METADATA)
    base = settings.BASE_URL
    assert answer.json() == {
        "issuer": base,
        "authorization_endpoint": f"{base}{AUTHORIZE}",
        "token_endpoint": f"{base}{TOKEN}",
        "registration_endpoint": f"{base}{REGISTER}",
        "revocation_endpoint": f"{base}{REVOKE}",
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "scopes_supported": ["servers:read", "tools:call"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": True,
        "service_documentation": f"{base}/api/docs",
    }
    assert answer["Access-Control-Allow-Origin"] == "*"


def test_client_that_registers_becomes_the_person_who_allows_it(world: World) -> None:
    app, browser = registered(), Browser(person=world.bob)
    page = app.ask(browser)
    back = parameters_of(browser.answer(page))
    assert back == {"code": back["code"], "state": app.state, "iss": settings.BASE_URL}
    tokens = app.redeem(back["code"]).json()
    assert tokens == {
        "access_token": tokens["access_token"],
        "refresh_token": tokens["refresh_token"],
        "token_type": "Bearer",
        "expires_in": 900,
        "scope": "servers:read tools:call",
    }
    principal = principal_of(tokens["access_token"])
    login = ClientLogin.unscoped.get()
    assert (principal.tenant_id, principal.member_id) == (world.bob.tenant.id, world.bob.member.id)
    assert principal.scopes == {Scope.SERVERS_READ, Scope.TOOLS_CALL}
    assert principal.credential == f"client_login:{login.id}"
    assert principal.expires_at is not None
    assert not principal.may_add_servers


def test_client_may_ask_for_less(world: World) -> None:
    tokens = registered().sign_in(Browser(person=world.alice), scope="servers:read")
    assert principal_of(tokens["access_token"]).scopes == {Scope.SERVERS_READ}


def test_person_in_two_tenants_chooses_one_for_the_client(world: World) -> None:
    second = factories.make_member(world.charlie.tenant, user=world.bob.user)
    app, browser = registered(), Browser(person=world.bob)
    page = app.ask(browser)
    assert world.bob.tenant.name in page.content.decode()
    assert "required checked" not in page.content.decode()
    code = parameters_of(browser.answer(page, member=str(second.id)))["code"]
    principal = principal_of(app.redeem(code).json()["access_token"])
    assert (principal.tenant_id, principal.member_id) == (second.tenant_id, second.id)


def test_page_says_who_asks_for_what_and_where_the_answer_goes(world: World) -> None:
    app = registered(name="Notes <b>& more</b>")
    page = app.ask(Browser(person=world.bob), resource=f"{settings.BASE_URL}/mcp/s/linear")
    text = " ".join(page.content.decode().split())
    for part in (
        "Notes &lt;b&gt;&amp; more&lt;/b&gt;",
        "Nobody has checked its name.",
        "at the server <strong>linear</strong> alone",
        "Use them for you: call tools",
        "<code>http://127.0.0.1:7777</code> - a program on this computer",
        world.bob.tenant.name,
        world.bob.user.username,
    ):
        assert part in text
    assert "<script" not in text


def test_person_who_is_not_logged_in_logs_in_first_and_comes_back(world: World) -> None:
    app, browser = registered(), Browser()
    sent = app.ask(browser)
    assert sent.status_code == 302
    assert sent["Location"].startswith("/login?next=/oauth/authorize%3F")
    form = browser.http.get(sent["Location"])
    fields = browser.form(form) | {"username": world.bob.user.username}
    back = browser.http.post("/login", {**fields, "password": "correct horse"})
    page = browser.http.get(back["Location"])
    assert "code" in parameters_of(browser.answer(page))


def test_refusal_is_told_to_the_client(world: World) -> None:
    app, browser = registered(), Browser(person=world.bob)
    back = parameters_of(browser.answer(app.ask(browser), "deny"))
    assert back == {
        "error": "access_denied",
        "error_description": "The person did not give access.",
        "state": app.state,
        "iss": settings.BASE_URL,
    }
    assert not ClientLogin.unscoped.exists()


def test_refresh_gives_new_tokens_and_ends_the_old_ones(world: World) -> None:
    app = registered()
    first = app.sign_in(Browser(person=world.bob))
    second = app.refresh(first["refresh_token"]).json()
    assert works(second["access_token"])
    assert not works(first["access_token"])
    third = app.refresh(second["refresh_token"], scope="servers:read").json()
    assert principal_of(third["access_token"]).scopes == {Scope.SERVERS_READ}
    assert ClientLogin.unscoped.count() == 1


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
def test_client_that_signs_out_ends_all_its_tokens_at_once(world: World, kind: str) -> None:
    app = registered()
    tokens = app.sign_in(Browser(person=world.bob))
    assert works(tokens["access_token"])
    assert app.revoke(tokens[kind]).status_code == 200
    assert not works(tokens["access_token"])
    assert app.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    assert ClientLogin.unscoped.get().end_reason == "client"


def test_unknown_token_is_revoked_like_any_other(world: World) -> None:
    app = registered()
    assert app.revoke("mha_nothing").status_code == 200


def test_native_client_may_take_any_port_of_its_loopback_address(world: World) -> None:
    app, browser = registered(redirect_uri="http://localhost/callback"), Browser(person=world.bob)
    app.redirect_uri = "http://localhost:51234/callback"
    answer = browser.answer(app.ask(browser))
    assert answer["Location"].startswith("http://localhost:51234/callback?code=")
    assert app.redeem(parameters_of(answer)["code"]).status_code == 200


def test_own_scheme_of_an_application_works_when_the_operator_names_it(
    world: World, settings: Settings
) -> None:
    settings.CLIENT_LOGIN_SCHEMES = ["cursor"]
    app, browser = registered(redirect_uri="cursor://anysphere/callback"), Browser(person=world.bob)
    page = app.ask(browser)
    assert "form-action 'self' cursor:" in page["Content-Security-Policy"]
    assert browser.answer(page)["Location"].startswith("cursor://anysphere/callback?code=")


def test_operator_who_is_member_of_nothing_can_give_nothing(world: World) -> None:
    app, browser = registered(), Browser()
    browser.http.force_login(world.root)
    page = app.ask(browser)
    assert (page.status_code, b"belongs to no organisation" in page.content) == (403, True)


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", METADATA), ("GET", AUTHORIZE), ("POST", TOKEN), ("POST", REGISTER), ("POST", REVOKE)],
)
def test_nothing_is_there_while_the_role_is_off(
    client: Client, settings: Settings, method: str, path: str
) -> None:
    settings.CLIENT_LOGIN = "OFF"
    assert client.generic(method, path).status_code == 404


def test_tokens_end_when_the_role_is_switched_off(world: World, settings: Settings) -> None:
    app = registered()
    tokens = app.sign_in(Browser(person=world.bob))
    settings.CLIENT_LOGIN = "OFF"
    assert not works(tokens["access_token"])


def test_browser_client_may_call_the_open_endpoints(client: Client) -> None:
    preflight = client.options(TOKEN, headers={"Origin": "https://app.example"})
    assert preflight.status_code == 204
    assert preflight["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in preflight
