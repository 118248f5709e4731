"""What is tried with redirects, codes and tokens (RFC 9700)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from oauth2_provider.models import AccessToken, Grant

from gateway.login.models import ClientLogin
from mcphub.core.clock import now
from mcphub.core.errors import NotAuthenticatedError
from tenants import credentials
from tenants.credentials import Shown
from tests.gateway.login.client_app import (
    Browser,
    ClientApp,
    parameters_of,
    registered,
    works,
)
from tests.world import World

pytestmark = pytest.mark.django_db

HTTPS = "https://app.example/callback"


# --- where the answer goes -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "uri",
    [
        "https://evil.example/callback",
        "https://app.example/callback/",
        "https://app.example/callback/../x",
        "https://app.example/Callback",
        "https://app.example/callback?x=1",
        "https://app.example/callback?",
        "https://app.example/callback#",
        "https://app.example:444/callback",
        "https://app.example.evil.example/callback",
        "https://app.example@evil.example/callback",
        "https://evil.example\\@app.example/callback",
        "http://app.example/callback",
        "HTTPS://app.example/callback ",
        "javascript:alert(1)",
        "data:text/html,x",
        "",
        None,
    ],
)
def test_answer_goes_to_no_other_address_than_the_registered_one(
    world: World, uri: str | None
) -> None:
    app, browser = registered(redirect_uri=HTTPS), Browser(person=world.bob)
    page = app.ask(browser, redirect_uri=uri)
    if uri is None:
        assert "code" in parameters_of(browser.answer(page))  # none given: the only one there is
        return
    assert page.status_code == 400
    assert "Location" not in page


@pytest.mark.parametrize(
    "uri",
    [
        "http://127.0.0.1:7777/other",
        "http://127.0.0.2:7777/callback",
        "http://localhost:7777/callback",
        "http://127.0.0.1.evil.example:7777/callback",
        "https://127.0.0.1:7777/callback",
    ],
)
def test_only_the_port_of_a_loopback_address_is_free(world: World, uri: str) -> None:
    page = registered().ask(Browser(person=world.bob), redirect_uri=uri)
    assert (page.status_code, "Location" in page) == (400, False)


def test_unknown_client_sends_nobody_anywhere(world: World) -> None:
    app = ClientApp(client_id="no-such-client", redirect_uri="https://evil.example/")
    page = app.ask(Browser(person=world.bob))
    assert (page.status_code, "Location" in page) == (400, False)


def test_code_is_redeemed_only_with_the_address_it_was_sent_to(world: World) -> None:
    app = ClientApp(redirect_uri=HTTPS)
    app.register(redirect_uris=[HTTPS, "https://app.example/second"])
    code = app.code_of(Browser(person=world.bob))
    answer = app.redeem(code, redirect_uri="https://app.example/second")
    assert answer.status_code == 400


# --- PKCE ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"code_challenge": None, "code_challenge_method": None},
        {"code_challenge_method": None},
        {"code_challenge_method": "plain"},
        {"code_challenge_method": "s256"},
    ],
)
def test_request_without_s256_is_refused(world: World, changes: dict[str, Any]) -> None:
    app = registered()
    back = parameters_of(app.ask(Browser(person=world.bob), **changes))
    assert (back["error"], back["state"]) == ("invalid_request", app.state)
    assert back["iss"] == settings.BASE_URL


@pytest.mark.parametrize("verifier", [None, "", "x" * 64])
def test_stolen_code_is_of_no_use_without_the_verifier(world: World, verifier: str | None) -> None:
    app = registered()
    code = app.code_of(Browser(person=world.bob))
    assert app.redeem(code, code_verifier=verifier).status_code == 400
    assert app.redeem(code).status_code == 200


# --- codes and tokens that are used twice --------------------------------------------------------


def test_code_that_is_shown_again_ends_what_it_began(world: World) -> None:
    app = registered()
    code = app.code_of(Browser(person=world.bob))
    tokens = app.redeem(code).json()
    assert works(tokens["access_token"])
    assert app.redeem(code).json()["error"] == "invalid_grant"
    assert not works(tokens["access_token"])
    assert app.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    assert ClientLogin.unscoped.get().end_reason == "code_reused"


def test_code_of_one_client_is_of_no_use_to_another_and_harms_nobody(world: World) -> None:
    app, thief = registered(), registered()
    code = app.code_of(Browser(person=world.bob))
    thief.verifier = app.verifier
    assert thief.redeem(code).json()["error"] == "invalid_grant"
    tokens = app.redeem(code).json()
    assert thief.redeem(code).json()["error"] == "invalid_grant"
    assert works(tokens["access_token"])


def test_code_lives_for_a_minute(world: World) -> None:
    app = registered()
    code = app.code_of(Browser(person=world.bob))
    assert Grant.objects.get().expires <= now() + timedelta(seconds=60)
    Grant.objects.update(expires=now())
    assert app.redeem(code).json()["error"] == "invalid_grant"


def test_refresh_token_that_is_used_twice_ends_the_whole_family(world: World) -> None:
    app = registered()
    first = app.sign_in(Browser(person=world.bob))
    second = app.refresh(first["refresh_token"]).json()
    third = app.refresh(second["refresh_token"]).json()
    assert works(third["access_token"])
    assert app.refresh(first["refresh_token"]).json()["error"] == "invalid_grant"
    assert not works(third["access_token"])
    assert app.refresh(third["refresh_token"]).json()["error"] == "invalid_grant"
    assert ClientLogin.unscoped.get().end_reason == "token_reused"


def test_refresh_token_of_one_client_is_of_no_use_to_another(world: World) -> None:
    app, thief = registered(), registered()
    tokens = app.sign_in(Browser(person=world.bob))
    assert thief.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    assert thief.revoke(tokens["refresh_token"]).status_code == 200
    assert works(tokens["access_token"])


def test_refresh_cannot_widen_what_was_allowed(world: World) -> None:
    app = registered()
    tokens = app.sign_in(Browser(person=world.bob), scope="servers:read")
    answer = app.refresh(tokens["refresh_token"], scope="servers:read tools:call")
    assert answer.json()["error"] == "invalid_scope"


def test_expired_token_is_refused(world: World) -> None:
    tokens = registered().sign_in(Browser(person=world.bob))
    AccessToken.objects.update(expires=now())
    assert not works(tokens["access_token"])


# --- audience ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "resource",
    [
        None,
        "",
        "https://evil.example/mcp",
        "{base}",
        "{base}/",
        "{base}/api/v1",
        "{base}/mcpx",
        "{base}/mcp/../api",
        "{base}/mcp/s/",
        "{base}/mcp/s/UPPER",
        "{base}/mcp/s/a/b",
        "{base}/mcp?x=1",
        "{base}/mcp#x",
        "{base}@evil.example/mcp",
        ["{base}/mcp", "{base}/mcp/s/linear"],
        ["{base}/mcp", "https://evil.example/mcp"],
    ],
)
def test_request_that_names_no_endpoint_of_the_hub_is_refused(
    world: World, resource: str | list[str] | None
) -> None:
    base = settings.BASE_URL
    texts = [resource] if isinstance(resource, str) else resource or []
    named = [text.format(base=base) for text in texts]
    back = parameters_of(registered().ask(Browser(person=world.bob), resource=named or None))
    assert back["error"] == "invalid_target"


def test_token_for_the_aggregate_is_none_for_the_api(world: World, client: Client) -> None:
    token = registered().sign_in(Browser(person=world.bob))["access_token"]
    assert works(token, "/mcp")
    assert works(token, "/mcp/s/linear")
    assert not works(token, "")
    for path in ("/api/v1/servers", "/api/v1/tenants/current", "/api/v1/client-logins"):
        answer = client.get(path, headers={"Authorization": f"Bearer {token}"})
        assert (answer.status_code, answer.json()["code"]) == (401, "invalid_credential")


def test_token_for_one_server_is_none_for_another(world: World) -> None:
    resource = f"{settings.BASE_URL}/mcp/s/linear"
    token = registered().sign_in(Browser(person=world.bob), resource=resource)["access_token"]
    found = {path: works(token, path) for path in ("/mcp/s/linear", "/mcp", "/mcp/s/linear-2")}
    assert found == {"/mcp/s/linear": True, "/mcp": False, "/mcp/s/linear-2": False}


def test_token_request_cannot_choose_another_resource(world: World) -> None:
    app = registered()
    code = app.code_of(Browser(person=world.bob), resource=f"{settings.BASE_URL}/mcp/s/linear")
    answer = app.redeem(code, resource=f"{settings.BASE_URL}/mcp")
    assert answer.json()["error"] == "invalid_target"
    assert app.redeem(code).status_code == 200


def test_token_is_used_in_the_header_alone(world: World, client: Client) -> None:
    token = registered().sign_in(Browser(person=world.bob))["access_token"]
    shown = Shown(authorization=f"Basic {token}", resource=f"{settings.BASE_URL}/mcp")
    with pytest.raises(NotAuthenticatedError):
        credentials.resolve(shown)
    assert client.get(f"/mcp?access_token={token}").status_code in {401, 404}
