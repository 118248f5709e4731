"""The OpenAPI document: valid, with problems everywhere and stable names."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from django.test import Client
from drf_spectacular.validation import validate_schema

from mcphub.api import schema


@pytest.fixture
def document(client: Client, db: None) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(client.get("/api/v1/schema").content)
    return loaded


def operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method} {path}": operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }


def test_document_is_valid_openapi(document: dict[str, Any]) -> None:
    validate_schema(document)  # type: ignore[no-untyped-call]  # of spectacular


def test_every_operation_names_the_problem_answer(document: dict[str, Any]) -> None:
    without = [
        name
        for name, operation in operations(document).items()
        if operation["responses"].get("default") != {"$ref": "#/components/responses/Problem"}
    ]
    assert without == []


def test_every_operation_says_in_one_line_what_it_does(document: dict[str, Any]) -> None:
    summaries = {name: each.get("summary", "") for name, each in operations(document).items()}
    assert [name for name, text in summaries.items() if not 5 < len(text) <= 100] == []


def test_every_operation_has_its_own_name(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for operation in operations(document).values()]
    assert len(set(names)) == len(names)


def test_hashes_and_sealed_values_are_in_no_schema(document: dict[str, Any]) -> None:
    text = yaml.safe_dump(document["components"]["schemas"]).lower()
    assert [word for word in ("hash", "sealed", "password") if word in text] == []


def test_plain_view_is_added_by_its_description(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "_described", {})
    schema.describe("/api/v1/echo", "POST", {"operationId": "postEcho", "responses": {}})
    document = schema.complete({"paths": {}})
    assert document["paths"] == {
        "/api/v1/echo": {
            "post": {
                "operationId": "postEcho",
                "tags": ["echo"],
                "security": [{"bearer": []}, {"loginSession": []}],
                "responses": {"default": {"$ref": "#/components/responses/Problem"}},
            }
        }
    }
