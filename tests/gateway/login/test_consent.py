"""What is tried against the person who is asked, and against the hub (security reference O15)."""

from __future__ import annotations

import pytest
from django.conf import settings

from gateway.login.models import ClientLogin
from tenants import credentials
from tenants.credentials import Shown
from tests import factories
from tests.gateway.login.client_app import (
    AUTHORIZE,
    TOKEN,
    Browser,
    parameters_of,
    principal_of,
    registered,
    works,
)
from tests.world import World

pytestmark = pytest.mark.django_db

HTTPS = "https://app.example/callback"


# --- consent -------------------------------------------------------------------------------------


def test_consent_needs_the_csrf_token(world: World) -> None:
    app, browser = registered(), Browser(person=world.bob)
    form = browser.form(app.ask(browser)) | {"decision": "allow"}
    del form["csrfmiddlewaretoken"]
    assert browser.http.post(AUTHORIZE, form).status_code == 403
    assert not ClientLogin.unscoped.exists()


def test_request_that_was_shown_to_one_person_is_answered_by_no_other(world: World) -> None:
    app, victim, attacker = registered(), Browser(person=world.alice), Browser(person=world.bob)
    shown = attacker.form(app.ask(attacker))
    own = victim.form(app.ask(victim))
    answer = victim.http.post(AUTHORIZE, {**own, "request": shown["request"], "decision": "allow"})
    assert answer.status_code == 400
    assert not ClientLogin.unscoped.exists()


def test_request_ends_with_the_login_it_was_shown_to(world: World) -> None:
    app, browser = registered(), Browser(person=world.bob)
    shown = browser.form(app.ask(browser))
    browser.http.force_login(world.alice.user)
    own = browser.form(app.ask(browser))
    answer = browser.http.post(AUTHORIZE, {**own, "request": shown["request"], "decision": "allow"})
    assert answer.status_code == 400


def test_consent_is_given_once_for_each_request(world: World) -> None:
    app, browser = registered(), Browser(person=world.bob)
    page = app.ask(browser)
    assert "code" in parameters_of(browser.answer(page))
    again = browser.answer(page)
    assert (again.status_code, b"answered already" in again.content) == (400, True)
    assert app.ask(browser).status_code == 200  # and is asked for anew


def test_form_cannot_change_what_was_shown(world: World) -> None:
    app, browser = registered(redirect_uri=HTTPS), Browser(person=world.bob)
    page = app.ask(browser, scope="servers:read")
    answer = browser.answer(
        page,
        redirect_uri="https://evil.example/",
        client_id="other",
        scope="servers:read tools:call",
        code_challenge="x",
    )
    assert answer["Location"].startswith(HTTPS)
    tokens = app.redeem(parameters_of(answer)["code"]).json()
    assert tokens["scope"] == "servers:read"


def test_person_acts_only_for_their_own_tenants(world: World) -> None:
    app, browser = registered(), Browser(person=world.bob)
    answer = browser.answer(app.ask(browser), member=str(world.charlie.member.id))
    assert answer.status_code == 400
    assert not ClientLogin.unscoped.exists()


def test_page_is_in_no_frame_runs_no_script_and_leads_only_to_the_client(world: World) -> None:
    page = registered(redirect_uri=HTTPS).ask(Browser(person=world.bob))
    assert page["Content-Security-Policy"] == (
        "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'; "
        "form-action 'self' https://app.example"
    )
    assert page["X-Frame-Options"] == "DENY"
    assert "no-store" in page["Cache-Control"]


def test_no_get_gives_access(world: World) -> None:
    app, browser = registered(), Browser(person=world.bob)
    form = browser.form(app.ask(browser))
    query = app.request() | form | {"decision": "allow"}
    assert browser.http.get(AUTHORIZE, query).status_code == 200
    assert not ClientLogin.unscoped.exists()


# --- mix-up and other grants ---------------------------------------------------------------------


def test_every_answer_names_the_issuer(world: World) -> None:
    app, browser = registered(), Browser(person=world.bob)
    answers = [
        browser.answer(app.ask(browser)),
        browser.answer(app.ask(browser), "deny"),
        app.ask(browser, scope="members:write"),
        app.ask(browser, response_type="token"),
        app.ask(browser, resource=None),
    ]
    assert [parameters_of(answer)["iss"] for answer in answers] == [settings.BASE_URL] * 5


def test_issuer_in_a_redirect_uri_is_replaced_by_the_true_one(world: World) -> None:
    app = registered(redirect_uri="https://app.example/cb?iss=https://evil.example")
    browser = Browser(person=world.bob)
    back = parameters_of(browser.answer(app.ask(browser)))
    assert back["iss"] == settings.BASE_URL


@pytest.mark.parametrize(
    "grant",
    [
        {"grant_type": "password", "username": "bob", "password": "correct horse"},
        {"grant_type": "client_credentials"},
        {"grant_type": "urn:ietf:params:oauth:grant-type:device_code"},
        {},
    ],
)
def test_there_is_no_other_grant(grant: dict[str, str], world: World) -> None:
    app = registered()
    answer = app.http.post(TOKEN, {"client_id": app.client_id, **grant})
    assert (answer.status_code, answer.json()["error"]) == (400, "unsupported_grant_type")


@pytest.mark.parametrize("kind", ["token", "id_token", "code token", "none"])
def test_there_is_no_other_response(world: World, kind: str) -> None:
    back = parameters_of(registered().ask(Browser(person=world.bob), response_type=kind))
    assert back["error"] in {"unauthorized_client", "unsupported_response_type"}


@pytest.mark.parametrize("scope", ["members:write", "servers:read api_keys:write", "openid"])
def test_nothing_else_than_the_offered_scopes_can_be_asked_for(world: World, scope: str) -> None:
    back = parameters_of(registered().ask(Browser(person=world.alice), scope=scope))
    assert back["error"] == "invalid_scope"


# --- people who change ---------------------------------------------------------------------------


def test_member_who_is_switched_off_ends_the_clients_too(world: World) -> None:
    app = registered()
    tokens = app.sign_in(Browser(person=world.bob))
    assert works(tokens["access_token"])
    world.bob.member.is_active = False
    world.bob.member.save()
    assert not works(tokens["access_token"])
    assert app.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"


def test_client_that_is_switched_off_gets_no_code_and_its_tokens_end(world: World) -> None:
    app, browser = registered(), Browser(person=world.bob)
    tokens, page = app.sign_in(browser), app.ask(browser)
    login = ClientLogin.unscoped.get()
    login.client.is_active = False
    login.client.save()
    assert browser.answer(page).status_code == 400
    assert app.ask(browser).status_code == 400
    assert app.refresh(tokens["refresh_token"]).json()["error"] == "invalid_client"


def test_token_resolves_to_one_tenant_alone(world: World) -> None:
    factories.make_member(world.charlie.tenant, user=world.bob.user)
    app, browser = registered(), Browser(person=world.bob)
    page = app.ask(browser)
    code = parameters_of(browser.answer(page, member=str(world.bob.member.id)))["code"]
    token = app.redeem(code).json()["access_token"]
    shown = Shown(
        authorization=f"Bearer {token}",
        tenant=world.charlie.tenant.slug,
        resource=f"{settings.BASE_URL}/mcp",
    )
    assert credentials.resolve(shown).tenant_id == world.bob.tenant.id
    assert principal_of(token).tenant_id == world.bob.tenant.id
