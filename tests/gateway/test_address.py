"""The address itself: who may speak to it, from where, and how it refuses."""

from __future__ import annotations

import json

import pytest

from tests.fakes.mcp_servers import Kind
from tests.gateway.hub import BOTH, Hub, Legacy, Modern, modern_body, modern_headers
from tests.world import World

METADATA = "/.well-known/oauth-protected-resource"


def test_a_client_without_a_credential_is_told_where_to_get_one(hub: Hub) -> None:
    client = hub.client()
    del client.headers["authorization"]
    answer = client.post("/mcp/s/demo", json=modern_body("server/discover"))
    assert answer.status_code == 401
    challenge = answer.headers["www-authenticate"]
    assert challenge.startswith('Bearer realm="mcphub", resource_metadata="http')
    assert challenge.endswith(f'{METADATA}/mcp/s/demo"')
    assert answer.json()["error"]["data"]["code"] == "not_authenticated"


def test_a_wrong_credential_is_called_an_invalid_token(hub: Hub) -> None:
    answer = hub.client().post("/mcp", headers={"authorization": "Bearer mhk_a_b"}, json={})
    assert answer.status_code == 401
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]


@pytest.mark.parametrize("path", ["", "/mcp", "/mcp/s/demo"])
def test_the_metadata_names_the_endpoint_as_the_resource(hub: Hub, path: str) -> None:
    answer = hub.client().get(METADATA + path)
    assert answer.status_code == 200
    assert answer.json()["resource"].endswith(path or "/mcp")
    assert answer.json()["bearer_methods_supported"] == ["header"]


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_a_slash_at_the_end_is_no_reason_to_redirect(hub: Hub, path: str) -> None:
    assert "tools" not in Modern(client=hub.client(), path=path).result("server/discover")


@pytest.mark.parametrize("path", ["/mcp/elsewhere", "/mcp/s/", "/mcp/s/UPPER", "/mcp/s/a/b"])
def test_there_is_nothing_beside_the_endpoints(hub: Hub, path: str) -> None:
    assert hub.client().post(path, json={}).status_code == 404


@pytest.mark.parametrize(
    ("headers", "code"),
    [({"host": "evil.example"}, "host_not_allowed"), ({"origin": "https://evil.example"}, None)],
)
def test_foreign_hosts_and_origins_are_refused(
    hub: Hub, headers: dict[str, str], code: str | None
) -> None:
    answer = hub.client().post("/mcp", headers=headers, json=modern_body("server/discover"))
    assert answer.status_code == 403
    assert answer.json()["error"]["data"]["code"] == (code or "origin_not_allowed")
    assert "access-control-allow-origin" not in answer.headers


def test_a_page_of_a_tenants_own_origin_may_connect(hub: Hub, world: World) -> None:
    world.alice.tenant.allowed_origins = ["https://app.example"]
    world.alice.tenant.save()
    origin = {"origin": "https://app.example"}
    preflight = hub.client().options(
        "/mcp", headers={**origin, "access-control-request-method": "POST"}
    )
    allowed = preflight.headers["access-control-allow-headers"].split(", ")
    assert preflight.status_code == 204
    assert {"authorization", "mcp-session-id", "mcp-method", "last-event-id"} <= set(allowed)
    answer = hub.client().post(
        "/mcp",
        headers={**origin, **modern_headers("server/discover")},
        json=modern_body("server/discover"),
    )
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    assert "mcp-session-id" in answer.headers["access-control-expose-headers"]


@pytest.mark.parametrize(
    ("headers", "content", "status"),
    [
        ({"content-type": "text/plain"}, b"{}", 415),
        ({"accept": "text/html"}, b"{}", 406),
        ({}, b"{", 400),
        ({}, b'{"jsonrpc":"2.0","id":1,"method":"ping","id":2}', 400),
        ({}, b"[" * 10_000 + b"]" * 10_000, 400),
        ({}, b'"' + b"x" * (3 << 20) + b'"', 413),
        ({}, b"[]", 400),
        ({}, b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"\\ud83d":1}}', 400),
        ({}, b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', 400),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_status(
    hub: Hub, headers: dict[str, str], content: bytes, status: int
) -> None:
    sent = {"accept": BOTH, "content-type": "application/json", **headers}
    answer = hub.client().post("/mcp", content=content, headers=sent)
    assert answer.status_code == status
    assert answer.json()["jsonrpc"] == "2.0"


def test_a_query_of_too_many_parameters_is_refused(hub: Hub) -> None:
    query = "&".join(["servers=demo"] * 51)
    body = modern_body("server/discover")
    answer = hub.client().post(
        f"/mcp?{query}", headers=modern_headers("server/discover"), json=body
    )
    assert answer.status_code == 400
    assert answer.json()["error"]["data"]["code"] == "malformed_request"


def test_a_whole_surrogate_pair_is_text(hub: Hub) -> None:
    hub.add("demo", Kind.MODERN)
    call = {"name": "echo", "arguments": {"text": "\U0001f600"}}
    escaped = json.dumps(modern_body("tools/call", call))
    assert "\\ud83d" in escaped
    headers = {**modern_headers("tools/call", "echo"), "content-type": "application/json"}
    answer = hub.client().post("/mcp/s/demo", content=escaped, headers=headers)
    assert answer.json()["result"]["content"][0]["text"] == "\U0001f600"


@pytest.mark.parametrize("query", ["servers=", "tools=", "tools=,", "servers=demo&tools="])
def test_an_empty_narrowing_leaves_nothing(hub: Hub, query: str) -> None:
    hub.add("demo", Kind.MODERN)
    client = Modern(client=hub.client(), path=f"/mcp?{query}")
    assert client.result("tools/list")["tools"] == []
    call = {"name": "demo__echo", "arguments": {"text": "x"}}
    assert "error" in client.ask("tools/call", call)


def test_a_session_of_somebody_else_is_as_unknown_as_none(hub: Hub, world: World) -> None:
    mine = Legacy(client=hub.client()).open()
    for person in (world.bob, world.charlie):
        theirs = Legacy(client=hub.client(person), session=mine.session)
        answer = theirs.post(theirs.request("ping"))
        assert answer.status_code == 404
        assert answer.json()["error"]["data"]["code"] == "unknown_session"
    assert mine.result("ping") == {}


def test_a_session_of_one_endpoint_is_unknown_at_another(hub: Hub) -> None:
    mine = Legacy(client=hub.client()).open()
    other = Legacy(client=hub.client(), path="/mcp/s/demo", session=mine.session)
    assert other.post(other.request("ping")).status_code == 404


def test_a_session_is_found_by_any_process_until_it_is_ended_in_one(two: Hub) -> None:
    mine = Legacy(client=two.client()).open()
    there = Legacy(client=two.client(process=1), session=mine.session)
    assert there.result("ping") == {}
    assert there.client.delete("/mcp", headers=there.headers).status_code == 204
    assert mine.post(mine.request("ping")).status_code == 404
