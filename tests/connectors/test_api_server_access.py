"""Who may do what to a server over REST, and what connecting answers."""

from __future__ import annotations

import json
import uuid
from unittest.mock import ANY

import pytest
from django.test import Client

from connectors.models import Connection
from connectors.services import connections, reopening
from connectors.states import State
from tenants.principal import Scope
from tests.connectors.rest import SERVERS, send, server_json
from tests.connectors.server_factories import make_connected, make_connection, make_connector
from tests.problems import problem
from tests.world import World

pytestmark = pytest.mark.usefixtures("rest")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("get", "{}"),
        ("patch", "{}"),
        ("delete", "{}"),
        ("post", "{}/connect"),
        ("post", "{}/disconnect"),
        ("post", "{}/diagnose"),
        ("post", "{}/complete-auth"),
        ("post", "{}/connections"),
        ("get", "{}/timeline"),
        ("get", "{}/tools"),
        ("patch", "{}/tools/search"),
        ("get", "{}/resources"),
        ("get", "{}/resource-templates"),
        ("get", "{}/prompts"),
    ],
)
@pytest.mark.django_db(transaction=True)
def test_a_strangers_server_and_an_unknown_one_answer_alike(
    client: Client, world: World, method: str, path: str
) -> None:
    row = make_connected(world.alice, "mine")
    before = Connection.unscoped.values().get(pk=row.pk)

    answers = [
        (sent.status_code, json.loads(sent.content.decode().replace(slug, "{}")))
        for slug in ("mine", "nope")
        for person in (world.bob, world.charlie)
        for sent in [send(client, method, f"{SERVERS}/{path.format(slug)}", person)]
    ]

    expected = problem("not_found", f"{SERVERS}/{path}", traceId=ANY)
    assert answers == [(404, expected)] * 4
    assert Connection.unscoped.values().get(pk=row.pk) == before


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("post", "", "servers:write"),
        ("patch", "/mine", "servers:write"),
        ("delete", "/mine", "servers:write"),
        ("post", "/mine/connect", "servers:connect"),
        ("post", "/mine/diagnose", "servers:connect"),
        ("post", "/mine/disconnect", "servers:connect"),
        ("post", "/mine/connections", "servers:write"),
        ("patch", "/mine/tools/search", "servers:write"),
    ],
)
@pytest.mark.django_db(transaction=True)
def test_a_read_only_key_changes_nothing(
    client: Client, world: World, method: str, path: str, scope: str
) -> None:
    make_connected(world.alice, "mine")
    headers = world.alice.headers_with(Scope.SERVERS_READ)

    answer = getattr(client, method)(
        f"{SERVERS}{path}", {}, content_type="application/json", headers=headers
    )

    assert answer.status_code == 403
    assert answer.json()["requiredScope"] == scope


@pytest.mark.django_db(transaction=True)
def test_connecting_waits_until_the_state_has_settled(
    client: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_connector("linear")

    def worker_connects(connection_id: uuid.UUID, holder: str) -> None:
        connections.transition(connection_id, State.CONNECTED)

    monkeypatch.setattr(reopening, "ask_to_open", worker_connects)

    answer = send(client, "post", f"{SERVERS}/linear/connect", world.alice)

    assert answer.status_code == 200
    assert answer.json() == server_json(
        "linear", kind="connector", connector="linear", connectionState="connected"
    )


@pytest.mark.django_db(transaction=True)
def test_connecting_can_be_asked_for_without_waiting(
    client: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_connection(world.alice, make_connector("linear"))
    asked: list[uuid.UUID] = []
    monkeypatch.setattr(reopening, "ask_to_open", lambda pk, holder: asked.append(pk))

    answer = client.post(
        f"{SERVERS}/linear/connect",
        content_type="application/json",
        headers={**world.alice.headers, "Prefer": "respond-async"},
    )

    assert answer.status_code == 202
    assert answer.headers["Location"] == f"{SERVERS}/linear"
    assert answer.json()["connectionState"] == "connecting"
    assert len(asked) == 1
