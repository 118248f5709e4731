"""Clients that are an address: their metadata document is fetched, guarded, for a person only."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from pytest_django.fixtures import Settings

from gateway.login.models import DownstreamClient
from tests.gateway.login.client_app import (
    TOKEN,
    Browser,
    ClientApp,
    parameters_of,
    works,
)
from tests.gateway.login.document_server import DocumentServer, document_server
from tests.world import World

pytestmark = pytest.mark.django_db

PATH = "/client.json"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DocumentServer]:
    with document_server(tmp_path_factory.mktemp("documents")) as server:
        yield server


@pytest.fixture
def documents(running: DocumentServer) -> DocumentServer:
    running.answers.clear()
    running.seen.clear()
    running.connections = 0
    return running


def test_published_client_signs_in_and_its_host_is_named(
    world: World, documents: DocumentServer
) -> None:
    app, browser = ClientApp(client_id=documents.publish(PATH)), Browser(person=world.bob)
    page = app.ask(browser)
    text = page.content.decode()
    assert f"It is published by <strong>localhost:{documents.port}</strong>" in text
    assert "Nobody has checked" not in text
    tokens = app.redeem(parameters_of(browser.answer(page))["code"]).json()
    assert works(tokens["access_token"])
    assert documents.seen == [PATH]


def test_document_is_fetched_for_a_person_who_is_logged_in_and_for_nobody_else(
    documents: DocumentServer,
) -> None:
    app = ClientApp(client_id=documents.publish(PATH))
    assert app.ask(Browser()).status_code == 302
    sent = {"client_id": app.client_id, "grant_type": "refresh_token", "refresh_token": "mhr_x"}
    assert app.http.post(TOKEN, sent).status_code in {400, 401}
    assert app.revoke("mha_x").status_code in {200, 400, 401}
    assert documents.connections == 0


def test_inner_network_is_not_reached_by_the_address_of_a_client(
    world: World, documents: DocumentServer, settings: Settings
) -> None:
    settings.EGRESS_ALLOW_LOOPBACK = False
    browser = Browser(person=world.bob)
    found = [
        ClientApp(client_id=address).ask(browser).status_code
        for address in (
            documents.publish("/inner.json"),
            f"https://127.0.0.1:{documents.port}/inner.json",
            f"https://[::ffff:127.0.0.1]:{documents.port}/inner.json",
            f"https://2130706433:{documents.port}/inner.json",
            "https://169.254.169.254/latest/meta-data",
            "https://10.0.0.1/inner.json",
        )
    ]
    assert found == [400] * 6
    assert documents.connections == 0
    assert not DownstreamClient.objects.exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"client_id": "https://other.example/client.json"},
        {"client_secret": "s"},
        {"token_endpoint_auth_method": "client_secret_post"},
        {"redirect_uris": []},
        {"redirect_uris": ["http://app.example/callback"]},
        {"grant_types": ["implicit"]},
        {"client_name": "x" * 101},
        {"client_name": "a\u202eb"},
    ],
)
def test_document_that_breaks_the_rules_makes_no_client(
    world: World, documents: DocumentServer, changes: dict[str, object]
) -> None:
    path = f"/bad-{abs(hash(json.dumps(changes)))}.json"
    app = ClientApp(client_id=documents.publish(path, **changes))
    assert app.ask(Browser(person=world.bob)).status_code == 400
    assert documents.seen == [path]
    assert not DownstreamClient.objects.exists()


def test_answer_that_is_no_document_makes_no_client(
    world: World, documents: DocumentServer
) -> None:
    browser = Browser(person=world.bob)
    goal = documents.publish("/goal.json")
    body = documents.answers["/goal.json"][2]
    addresses = (
        documents.answer("/moved.json", b"", status=302, to=goal),
        documents.answer("/gone.json", body, status=404),
        documents.answer("/page.json", body, kind="text/html"),
        documents.answer("/text.json", b"no json"),
        documents.answer("/list.json", b"[]"),
        documents.answer("/large.json", body + b" " * (16 << 10)),
    )
    found = [ClientApp(client_id=address).ask(browser).status_code for address in addresses]
    assert found == [400] * 6
    assert "/goal.json" not in documents.seen
    assert not DownstreamClient.objects.exists()


def test_broken_document_is_not_fetched_again_and_again(
    world: World, documents: DocumentServer
) -> None:
    app = ClientApp(client_id=documents.answer("/broken.json", b"{"))
    browser = Browser(person=world.bob)
    assert [app.ask(browser).status_code for _ in range(3)] == [400] * 3
    assert documents.seen == ["/broken.json"]


def test_address_without_tls_is_no_client(world: World, documents: DocumentServer) -> None:
    app = ClientApp(client_id=documents.publish(PATH).replace("https://", "http://"))
    assert app.ask(Browser(person=world.bob)).status_code == 400
    assert documents.connections == 0
