"""Every failure as a problem document, whole, from DRF views and from plain async views."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.test import AsyncClient, Client
from pytest_django.fixtures import Settings

from mcphub.api import parsers
from mcphub.api.problems import PROBLEMS
from tenants.principal import Scope
from tests.api.urls import SECRET
from tests.problems import problem, wrong
from tests.world import World

pytestmark = pytest.mark.urls("tests.api.urls")

EXPECTED: dict[str, tuple[str, str | None, dict[str, Any]]] = {
    "blocked": ("blocked_url", None, {}),
    "conflict": ("already_exists", "There is one.", {}),
    "limit": (
        "limit_reached",
        "Too many calls.",
        {"retryable": True, "retryAfter": 2, "limit": "calls"},
    ),
    "away": ("unavailable", None, {"retryable": True, "retryAfter": 2}),
    "unreachable": ("upstream_unreachable", None, {"retryable": True}),
    "late": ("timeout", None, {"retryable": True}),
    "unknown-outcome": ("outcome_unknown", None, {}),
    "sign-in": ("authorization_needed", None, {}),
    "protocol": (
        "protocol_error",
        None,
        {"rpc": {"code": -32602, "message": SECRET, "data": {"a": 1}}},
    ),
    "http404": ("not_found", None, {}),
    "denied": ("not_permitted", None, {}),
    "bad": ("malformed_request", None, {}),
    "fault": ("internal_error", None, {}),
}


@pytest.mark.parametrize("route", ["failing", "async-failing"])
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_failure_is_a_problem_document(client: Client, world: World, route: str, name: str) -> None:
    code, detail, more = EXPECTED[name]
    path = f"/api/v1/{route}/{name}"
    answer = client.get(path, headers=world.bob.headers)
    assert answer.status_code == PROBLEMS[code].status
    assert answer["Content-Type"] == "application/problem+json"
    assert answer["Cache-Control"] == "no-store"
    assert answer.json() == problem(code, path, detail, **more)


@pytest.mark.parametrize("route", ["failing", "async-failing"])
def test_wait_is_a_header_too(client: Client, world: World, route: str) -> None:
    answer = client.get(f"/api/v1/{route}/limit", headers=world.bob.headers)
    assert answer["Retry-After"] == "2"
    assert answer["RateLimit"] == '"calls";r=0;t=2'


@pytest.mark.parametrize("route", ["failing", "async-failing"])
def test_unexpected_fault_is_logged_with_its_trace_id_and_not_shown(
    client: Client, world: World, caplog: pytest.LogCaptureFixture, route: str
) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    with caplog.at_level(logging.ERROR, "mcphub.api.errors"):
        answer = client.get(
            f"/api/v1/{route}/fault",
            headers={**world.bob.headers, "traceparent": f"00-{trace}-b7ad6b7169203331-01"},
        )
    assert answer.json()["traceId"] == trace
    assert SECRET not in answer.text
    (record,) = [r for r in caplog.records if r.name == "mcphub.api.errors"]
    assert record.getMessage() == f"unexpected trace={trace}"
    assert record.exc_info is not None


@pytest.mark.parametrize("sent", ["", "00-zz-1-01", "00-" + "a" * 32])
def test_trace_id_is_made_when_the_caller_sends_none_that_is_valid(
    client: Client, world: World, sent: str
) -> None:
    answer = client.get("/api/v1/failing/blocked", headers={"traceparent": sent})
    assert len(bytes.fromhex(answer.json()["traceId"])) == 16


def test_fault_outside_of_all_views_is_a_problem_document_below_the_api_only(
    client: Client, db: None
) -> None:
    client.raise_request_exception = False
    below, above = client.get("/api/v1/broken"), client.get("/broken")
    assert below.json() == problem("internal_error", "/api/v1/broken")
    assert (above.status_code, above.text) == (500, "500 Internal error\n")


def test_unknown_path_is_a_problem_document_below_the_api_only(client: Client, db: None) -> None:
    below, above = client.get("/api/v1/nothing"), client.get("/nothing")
    assert below.status_code == above.status_code == 404
    assert below.json() == problem("not_found", "/api/v1/nothing")
    assert above.text == "404 There is no such page\n"


def test_foreign_host_is_a_400_and_runs_no_view(client: Client, db: None) -> None:
    answer = client.get("/api/v1/problems", headers={"Host": "evil.example"})
    assert answer.status_code == 400
    assert answer.json() == problem("malformed_request", "/api/v1/problems")


def test_wrong_method_is_a_405_that_names_the_right_ones(client: Client, world: World) -> None:
    for path, allowed in (
        ("/api/v1/shelf", {"POST", "OPTIONS"}),
        ("/api/v1/echo", {"POST"}),
    ):
        answer = client.get(path, headers=world.bob.headers)
        assert answer.status_code == 405
        assert set(answer["Allow"].split(", ")) == allowed
        assert answer.json() == problem("method_not_allowed", path)


def test_anonymous_is_told_nothing_about_methods(client: Client, world: World) -> None:
    assert [client.get(f"/api/v1/{name}").status_code for name in ("shelf", "echo")] == [401, 401]


@pytest.mark.parametrize("path", ["/api/v1/shelf", "/api/v1/echo"])
@pytest.mark.parametrize(
    ("body", "content_type", "code"),
    [
        ("{", "application/json", "malformed_request"),
        ("[" * 99, "application/json", "malformed_request"),
        ("a=1", "application/x-www-form-urlencoded", "unsupported_media_type"),
    ],
)
def test_body_that_cannot_be_read_is_refused(
    client: Client, world: World, path: str, body: str, content_type: str, code: str
) -> None:
    answer = client.post(path, body, content_type=content_type, headers=world.bob.headers)
    assert answer.json()["code"] == code
    assert answer.status_code == PROBLEMS[code].status


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b'{"a": NaN}', 400, "malformed_request"),
        (b'{"a": -1e999}', 400, "malformed_request"),
        (b'{"a": 1, "a": 2}', 400, "malformed_request"),
        (b'{"a": [{"b": 1, "\\u0062": 2}]}', 400, "malformed_request"),
        (b'{"a": "' + b"\xff" + b'"}', 400, "malformed_request"),
        (b"[1]", 422, "invalid_input"),
        (b'{"a": "' + b"x" * 100 + b'"}', 413, "body_too_large"),
    ],
)
def test_body_of_a_plain_view_is_an_object_within_its_limit(
    client: Client, world: World, body: bytes, status: int, code: str
) -> None:
    answer = client.post(
        "/api/v1/echo", body, content_type="application/json", headers=world.bob.headers
    )
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_deep_nesting_is_refused_by_drf_views_too(client: Client, world: World) -> None:
    body = '{"a":' * 100_000
    answer = client.post(
        "/api/v1/shelf", body, content_type="application/json", headers=world.bob.headers
    )
    assert answer.status_code == 400


def test_body_over_the_limit_is_refused_by_drf_views_too(
    client: Client, world: World, settings: Settings
) -> None:
    settings.MAX_ARGUMENT_BYTES = 10
    answer = client.post(
        "/api/v1/shelf",
        {"isOpen": True, "padding": "x" * parsers.ENVELOPE_BYTES},
        content_type="application/json",
        headers=world.bob.headers,
    )
    assert answer.status_code == 413
    assert answer.json() == problem(
        "body_too_large", "/api/v1/shelf", "The body may have 65546 bytes."
    )


def test_each_wrong_value_has_its_pointer(client: Client, world: World) -> None:
    body = {"shelfItems": [{"itemName": "ok"}, {"itemName": "long"}, {"x/y~z": 1}], "isOpen": 3}
    answer = client.post(
        "/api/v1/shelf", body, content_type="application/json", headers=world.bob.headers
    )
    assert answer.status_code == 422
    assert answer.json() == problem(
        "invalid_input",
        "/api/v1/shelf",
        errors=[
            wrong(
                "/shelfItems/1/itemName",
                "Ensure this field has no more than 3 characters.",
                "max_length",
            ),
            wrong("/shelfItems/2/itemName", "This field is required.", "required"),
            wrong("/isOpen", "Must be a valid boolean."),
        ],
    )


def test_unknown_member_is_named_with_an_escaped_pointer(client: Client, world: World) -> None:
    body = {"shelfItems": [{"itemName": "ok", "x/y~z": 1}]}
    answer = client.post(
        "/api/v1/shelf", body, content_type="application/json", headers=world.bob.headers
    )
    assert answer.json()["errors"] == [
        wrong("/shelfItems/0/x~1y~0z", "There is no such member.", "unknown_member")
    ]


def test_json_is_camel_case_both_ways(client: Client, world: World) -> None:
    body = {"shelfItems": [{"itemName": "a"}]}
    answer = client.post(
        "/api/v1/shelf", body, content_type="application/json", headers=world.bob.headers
    )
    assert answer.json() == {"shelfItems": [{"item_name": "a"}], "firstItem": "a"}


def test_plain_view_gets_the_principal_and_its_scope_is_required(
    client: Client, world: World
) -> None:
    good = client.post(
        "/api/v1/echo", {"a": 1}, content_type="application/json", headers=world.bob.headers
    )
    assert good.json() == {"member": str(world.bob.member.id), "body": {"a": 1}}
    empty = client.post("/api/v1/echo", content_type="application/json", headers=world.bob.headers)
    assert empty.json()["body"] == {}


def test_plain_view_refuses_a_credential_without_the_scope(client: Client, world: World) -> None:
    headers = world.bob.headers_with(Scope.SERVERS_READ)
    answer = client.post("/api/v1/echo", headers=headers)
    assert answer.status_code == 403
    assert answer.json() == problem(
        "not_permitted",
        "/api/v1/echo",
        "This needs the scope 'tools:call'.",
        requiredScope="tools:call",
    )


def test_plain_view_checks_csrf_for_logins_only(world: World) -> None:
    browser = Client(enforce_csrf_checks=True)
    by_key = browser.post("/api/v1/echo", {}, "application/json", headers=world.bob.headers)
    browser.force_login(world.bob.user)
    by_login = browser.post("/api/v1/echo")
    assert by_key.status_code == 200
    assert by_login.status_code == 403
    assert by_login.json()["code"] == "csrf_failed"


@pytest.mark.django_db(transaction=True)
async def test_plain_view_works_on_an_event_loop(async_client: AsyncClient, world: World) -> None:
    good = await async_client.post(
        "/api/v1/echo", {"a": 1}, content_type="application/json", headers=world.bob.headers
    )
    anonymous = await async_client.post("/api/v1/echo")
    assert good.json()["body"] == {"a": 1}
    assert anonymous.status_code == 401
    assert anonymous["WWW-Authenticate"] == 'Bearer realm="mcphub"'


def test_problem_types_are_public_and_sorted(client: Client, db: None) -> None:
    answer = client.get("/api/v1/problems")
    kinds = answer.json()
    assert answer.status_code == 200
    assert [kind["code"] for kind in kinds] == sorted(PROBLEMS)
    assert next(kind for kind in kinds if kind["code"] == "not_found") == {
        "type": "urn:mcphub:problem:not_found",
        "code": "not_found",
        "status": 404,
        "title": "There is no such object",
        "meaning": "The id is unknown, or belongs to somebody else: the answer is the same.",
    }


@pytest.mark.parametrize("number", [5, 1.5, True])
def test_number_is_not_taken_for_a_text(client: Client, world: World, number: float) -> None:
    body = {"shelfItems": [{"itemName": "ok"}, {"itemName": number}]}
    answer = client.post(
        "/api/v1/shelf", body, content_type="application/json", headers=world.bob.headers
    )
    assert [one["path"] for one in answer.json()["errors"]] == ["/shelfItems/1/itemName"]
