"""The OpenAPI document tells the truth: every route is in it, and answers fit what it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from django.test import Client

from connectors.api.urls import urlpatterns
from tests.connectors.rest import SERVERS, send
from tests.connectors.server_factories import make_call, make_connected, make_connector
from tests.world import World

DOCUMENT = Path(__file__).parents[2] / "docs" / "api" / "openapi.yaml"


@lru_cache(maxsize=1)
def document() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(DOCUMENT.read_text(encoding="utf-8"))
    return loaded


def routes() -> Iterator[str]:
    for pattern in urlpatterns:
        yield "/api/v1/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(pattern.pattern))


pytestmark = pytest.mark.usefixtures("rest")


def test_every_route_is_documented() -> None:
    assert set(routes()) - set(document()["paths"]) == set()


def test_every_operation_has_its_own_name() -> None:
    names = [
        operation["operationId"]
        for operations in document()["paths"].values()
        for operation in operations.values()
    ]

    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize(
    ("path", "documented"),
    [
        (SERVERS, SERVERS),
        (f"{SERVERS}/mine", f"{SERVERS}/{{server}}"),
        (f"{SERVERS}/mine/tools", f"{SERVERS}/{{server}}/tools"),
        (f"{SERVERS}/mine/prompts", f"{SERVERS}/{{server}}/prompts"),
        (f"{SERVERS}/mine/timeline", f"{SERVERS}/{{server}}/timeline"),
        ("/api/v1/calls", "/api/v1/calls"),
        ("/api/v1/calls/{call}", "/api/v1/calls/{call_id}"),
        ("/api/v1/tools", "/api/v1/tools"),
        ("/api/v1/tools?format=openai", "/api/v1/tools"),
        ("/api/v1/connectors", "/api/v1/connectors"),
        ("/api/v1/connectors/linear", "/api/v1/connectors/{connector}"),
        ("/api/v1/elicitations", "/api/v1/elicitations"),
    ],
)
@pytest.mark.django_db(transaction=True)
def test_answers_fit_the_document(client: Client, world: World, path: str, documented: str) -> None:
    make_connector("linear", icon="/static/l.svg")
    row = make_connected(world.alice, "mine", last_error=None)
    call = make_call(world.alice, row, status="succeeded", outcome={"result": {}})

    answer = client.get(path.format(call=call.pk), headers=world.alice.headers)

    assert answer.status_code == 200
    check(answer.json(), document()["paths"][documented]["get"]["responses"]["200"])


@pytest.mark.django_db(transaction=True)
def test_problems_fit_the_document(client: Client, world: World) -> None:
    answer = send(client, "post", SERVERS, world.alice, {"odd": 1})

    check(answer.json(), document()["components"]["responses"]["Problem"])


def check(value: Any, response: dict[str, Any]) -> None:
    (content,) = response["content"].values()
    schema = {**content["schema"], "components": document()["components"]}
    jsonschema.Draft202012Validator(schema).validate(value)
