"""Registration of clients: what they may say about themselves, and how many there may be."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from gateway.login import logins
from gateway.login.models import DownstreamClient
from tests.gateway.login.client_app import REGISTER, Browser, ClientApp, registered
from tests.gateway.login.client_logins import make_client, make_login
from tests.world import World

pytestmark = pytest.mark.django_db

LOOPBACK = "http://127.0.0.1/callback"
WEB = "https://app.example/callback"


def test_client_is_told_what_it_became_and_gets_no_secret() -> None:
    app = ClientApp()
    told = app.register(
        token_endpoint_auth_method="client_secret_basic",
        grant_types=["authorization_code", "refresh_token"],
        scope="servers:read",
        application_type="native",
    ).json()
    assert told == {
        "client_id": app.client_id,
        "client_id_issued_at": told["client_id_issued_at"],
        "client_name": "Probe",
        "redirect_uris": [app.redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("", "invalid_client_metadata"),
        ("[]", "invalid_client_metadata"),
        ("{", "invalid_client_metadata"),
        ('{"redirect_uris": ["https://a.example/"], "x": "' + "y" * 20_000 + '"}', None),
        ("{}", "invalid_redirect_uri"),
        ('{"redirect_uris": []}', "invalid_redirect_uri"),
        ('{"redirect_uris": "https://a.example/"}', "invalid_redirect_uri"),
        ('{"redirect_uris": [1]}', "invalid_redirect_uri"),
        ('{"redirect_uris": ["https://a.example/ https://evil.example/"]}', "invalid_redirect_uri"),
        ('{"redirect_uris": ["https://a.example/"], "client_name": 1}', "invalid_client_metadata"),
        (
            '{"redirect_uris": ["https://a.example/"], "client_name": "a\\u202eb"}',
            "invalid_client_metadata",
        ),
        (
            '{"redirect_uris": ["https://a.example/"], "grant_types": ["implicit"]}',
            "invalid_client_metadata",
        ),
        (
            '{"redirect_uris": ["https://a.example/"], "grant_types": ["client_credentials"]}',
            "invalid_client_metadata",
        ),
    ],
)
def test_metadata_that_cannot_be_used_is_refused(
    client: Client, body: str, error: str | None
) -> None:
    answer = client.post(REGISTER, body, content_type="application/json")
    assert (answer.status_code, answer.json()["error"]) == (400, error or "invalid_client_metadata")
    assert not DownstreamClient.objects.exists()


@pytest.mark.parametrize(
    "uri",
    [
        "http://app.example/callback",
        "http://127.0.0.1.evil.example/callback",
        "http://10.0.0.1/callback",
        "https://user:secret@app.example/callback",
        "https://*.app.example/callback",
        "https://app.example/callback#fragment",
        "https:///callback",
        "https://app.example;script-src/callback",
        "javascript:alert(1)",
        "data:text/html,x",
        "evil://callback",
        "/callback",
        "https://app.example/\u202ecallback",
        "https://app.example/" + "x" * 2000,
    ],
)
def test_nobody_is_ever_sent_to_such_an_address(uri: str) -> None:
    answer = ClientApp(redirect_uri=uri).register()
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_redirect_uri")


def test_hub_for_one_machine_keeps_of_many_addresses_those_on_it(settings: Settings) -> None:
    settings.CLIENT_LOGIN = "LOOPBACK"
    told = ClientApp().register(redirect_uris=[WEB, LOOPBACK, "http://localhost/"]).json()
    assert told["redirect_uris"] == [LOOPBACK, "http://localhost/"]
    assert ClientApp(redirect_uri=WEB).register().status_code == 400


def test_address_that_is_no_longer_allowed_is_not_used(world: World, settings: Settings) -> None:
    app, browser = registered(redirect_uri=WEB), Browser(person=world.bob)
    settings.CLIENT_LOGIN = "LOOPBACK"
    assert app.ask(browser).status_code == 400


def test_flood_of_registrations_ends_at_a_rate(client: Client) -> None:
    answers = [ClientApp().register() for _ in range(40)]
    refused = [answer for answer in answers if answer.status_code != 201]
    assert refused
    assert {answer.status_code for answer in refused} == {429}
    assert {answer.json()["error"] for answer in refused} == {"temporarily_unavailable"}
    assert all(int(answer["Retry-After"]) > 0 for answer in refused)
    assert DownstreamClient.objects.count() == len(answers) - len(refused)


def test_clients_that_nobody_let_in_are_limited_and_others_do_not_count(
    world: World, settings: Settings
) -> None:
    settings.CLIENT_REGISTRATIONS_MAX = 2
    make_login(world.bob)
    make_client()
    registered()
    assert ClientApp().register().status_code == 429
    assert logins.abandoned().count() == 2


def test_authorization_requests_of_one_person_are_limited(world: World) -> None:
    app, browser = registered(), Browser(person=world.bob)
    found = {app.ask(browser).status_code for _ in range(35)}
    assert found == {200, 429}


def test_waiting_requests_of_a_browser_are_few(world: World) -> None:
    app, browser = registered(), Browser(person=world.bob)
    pages: list[Any] = [app.ask(browser) for _ in range(6)]
    assert browser.answer(pages[0]).status_code == 400
    assert browser.answer(pages[-1]).status_code == 303
