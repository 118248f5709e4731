"""The way back: what a client asks for, as its server knows it."""

from __future__ import annotations

from gateway.projection import requests
from gateway.projection.requests import Addressed
from mcphub.core.types import JSONObject


def test_a_public_uri_addresses_its_server() -> None:
    asked: JSONObject = {"uri": "mcphub://docs/file:///a", "x": 1}
    assert requests.addressed_by_uri(asked) == Addressed("docs", {"uri": "file:///a", "x": 1})
    assert requests.addressed_by_uri({"uri": "file:///a"}) is None
    assert requests.addressed_by_uri({"uri": 5}) is None


def test_a_completion_of_a_template_addresses_its_server() -> None:
    asked: JSONObject = {
        "ref": {"type": "ref/resource", "uri": "mcphub://docs/file:///{+path}"},
        "argument": {"name": "path", "value": "a"},
    }
    assert requests.addressed_by_template(asked) == Addressed(
        "docs",
        {
            "ref": {"type": "ref/resource", "uri": "file:///{+path}"},
            "argument": {"name": "path", "value": "a"},
        },
    )
    assert requests.addressed_by_template({"ref": {"type": "ref/prompt", "name": "a"}}) is None


def test_a_public_task_id_addresses_its_server() -> None:
    assert requests.addressed_by_task({"taskId": "docs:1"}) == Addressed("docs", {"taskId": "1"})
    assert requests.addressed_by_task({"taskId": "1"}) is None


def test_only_what_the_client_said_of_its_own_hop_is_taken_off() -> None:
    asked: JSONObject = {
        "name": "a",
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "progressToken": 1,
            "traceparent": "00-…",
            "com.vendor/x": {"y": 1},
        },
    }
    assert requests.without_envelope(asked) == {
        "name": "a",
        "_meta": {"traceparent": "00-…", "com.vendor/x": {"y": 1}},
    }
    assert requests.without_envelope({"name": "a", "_meta": {"progressToken": 1}}) == {"name": "a"}


def test_a_related_task_gets_its_own_id_back() -> None:
    key = "io.modelcontextprotocol/related-task"
    asked: JSONObject = {"_meta": {key: {"taskId": "docs:1"}, "v": 1}}
    assert requests.own_related_task(asked) == {"_meta": {key: {"taskId": "1"}, "v": 1}}
    assert requests.own_related_task({"a": 1}) == {"a": 1}
