"""OpenAPI of the plain async views; the rest is generated from the DRF views."""

from __future__ import annotations

from typing import Any, cast, get_args

from mcp_types import LoggingLevel
from rest_framework import serializers

from connectors.api import outputs
from connectors.provider_profiles import Format
from mcphub.api.schema import describe
from mcphub.api.serializers import Output

OBJECT: dict[str, Any] = {"type": "object", "additionalProperties": True}
TEXT: dict[str, Any] = {"type": "string"}
SERVER = {"$ref": "#/components/schemas/ServerOutput"}

TIMEOUT = {
    "type": "integer",
    "minimum": 1,
    "description": "Milliseconds without progress that the call may take; progress extends it, "
    "up to MCPHUB_CALL_TIMEOUT_MAX.",
}
TOOL_CALL = {
    "type": "object",
    "properties": {
        "arguments": OBJECT,
        "_meta": OBJECT,
        "timeoutMs": TIMEOUT,
        "sendAnyway": {
            "type": "boolean",
            "description": "Do not check the arguments against the tool's schema.",
        },
    },
    "additionalProperties": False,
}
ACCEPTED = {
    "type": "object",
    "required": ["id", "status"],
    "properties": {"id": {"type": "string", "format": "uuid"}, "status": TEXT},
}
CALL = {
    "allOf": [
        {"$ref": "#/components/schemas/CallOutput"},
        {
            "type": "object",
            "required": ["outcome"],
            "properties": {
                "outcome": {
                    "type": ["object", "null"],
                    "description": '{"result": …} or {"error": …}, as the server gave it.',
                }
            },
        },
    ]
}
BATCH_ITEM = {
    "type": "object",
    "required": ["server", "tool"],
    "properties": {
        "server": TEXT,
        "tool": TEXT,
        "idempotencyKey": TEXT,
        **cast("dict[str, Any]", TOOL_CALL["properties"]),
    },
    "additionalProperties": False,
}
BATCH = {
    "type": "object",
    "required": ["calls"],
    "properties": {
        "calls": {"type": "array", "minItems": 1, "maxItems": 100, "items": BATCH_ITEM},
        "parallel": {"type": "integer", "minimum": 1, "default": 10},
    },
    "additionalProperties": False,
}
OUTCOME = {
    "type": "object",
    "required": ["server", "tool", "id", "status"],
    "properties": {
        "server": {"type": ["string", "null"]},
        "tool": {"type": ["string", "null"]},
        "id": {"type": ["string", "null"]},
        "status": {"type": "string", "description": "Of the ledger, or `refused`."},
        "result": OBJECT,
        "problem": {"$ref": "#/components/schemas/Problem"},
    },
}
OUTCOMES = {
    "type": "object",
    "required": ["results"],
    "properties": {"results": {"type": "array", "items": OUTCOME}},
}
STEP = {
    "type": "object",
    "required": ["name", "outcome", "code", "hint", "durationMs", "detail"],
    "properties": {
        "name": TEXT,
        "outcome": {"type": "string", "enum": ["ok", "failed", "skipped"]},
        "code": {"type": ["string", "null"]},
        "hint": {"type": ["string", "null"]},
        "durationMs": {"type": ["number", "null"]},
        "detail": OBJECT,
    },
}
CHECKLIST = {
    "type": "object",
    "required": ["server", "ok", "steps"],
    "properties": {
        "server": TEXT,
        "ok": {"type": "boolean"},
        "steps": {"type": "array", "items": STEP},
    },
}
PREFER = {
    "name": "Prefer",
    "in": "header",
    "schema": TEXT,
    "description": "`respond-async` answers at once, `wait=N` after at most N seconds (RFC 7240); "
    "a preference, so more than MCPHUB_CALL_WAIT (60) is taken as that.",
}
IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "maxLength": 255},
    "description": "The same key and body within 24 hours is the same call.",
}

BATCH_KEY = {
    **IDEMPOTENCY_KEY,
    "schema": {"type": "string", "maxLength": 250},
    "description": "Stands for each call without an `idempotencyKey`: the same key and whole body "
    "within 24 hours are the same calls.",
}


class CallPageOutput(Output):
    items = outputs.CallOutput(many=True)
    next_cursor = serializers.CharField(allow_null=True)


page_of_calls = CallPageOutput


def in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": TEXT}


def in_query(name: str, schema: dict[str, Any], text: str = "") -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema, "description": text}


def json_of(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def answer(schema: dict[str, Any], text: str) -> dict[str, Any]:
    return {"description": text, "content": json_of(schema)}


def body(schema: dict[str, Any], *, required: bool = True) -> dict[str, Any]:
    return {"required": required, "content": json_of(schema)}


def call_answers(result: dict[str, Any], text: str) -> dict[str, Any]:
    location = {"Location": {"schema": TEXT}}
    return {
        "200": answer(result, text),
        "202": {**answer(ACCEPTED, "Accepted; `GET` the location."), "headers": location},
    }


RELAYED: tuple[tuple[str, str, str, dict[str, Any], list[str]], ...] = (
    ("resources/read", "readResource", "Read a resource.", {"uri": TEXT}, ["uri"]),
    (
        "prompts/get",
        "getPrompt",
        "Get a prompt.",
        {"name": TEXT, "arguments": {"type": "object", "additionalProperties": TEXT}},
        ["name"],
    ),
    (
        "complete",
        "complete",
        "Complete an argument of a prompt or a resource template.",
        {"ref": OBJECT, "argument": OBJECT, "context": OBJECT},
        ["ref", "argument"],
    ),
)
LISTINGS = (
    ("tools", "tools", "listTools"),
    ("resources", "resources", "listResources"),
    ("resource-templates", "resourceTemplates", "listResourceTemplates"),
    ("prompts", "prompts", "listPrompts"),
)


def describe_calls() -> None:
    """Describe what makes calls, and one call."""
    headers = [IDEMPOTENCY_KEY, PREFER]
    server = in_path("server")
    describe(
        "/api/v1/servers/{server}/tools/{tool}/call",
        "post",
        {
            "operationId": "callTool",
            "summary": "Call a tool, by the server's own name or by its public name.",
            "parameters": [server, in_path("tool"), *headers],
            "requestBody": body(TOOL_CALL),
            "responses": call_answers(OBJECT, "The server's CallToolResult, `isError` included."),
        },
    )
    for path, name, summary, members, needed in RELAYED:
        asked = {
            "type": "object",
            "required": needed,
            "properties": {**members, "_meta": OBJECT, "timeoutMs": TIMEOUT},
            "additionalProperties": False,
        }
        describe(
            f"/api/v1/servers/{{server}}/{path}",
            "post",
            {
                "operationId": name,
                "summary": summary,
                "parameters": [server, *headers],
                "requestBody": body(asked),
                "responses": call_answers(OBJECT, "The server's result, every field kept."),
            },
        )
    wait = in_query(
        "wait",
        {"type": "number", "minimum": 0},
        "Seconds to wait for the end; more than MCPHUB_CALL_WAIT (60) is a 422.",
    )
    one = {
        "operationId": "getCall",
        "summary": "One call with its outcome.",
        "parameters": [in_path("call_id"), wait],
        "responses": {"200": answer(CALL, "The call.")},
    }
    describe("/api/v1/calls/{call_id}", "get", one)


def describe_model_calls() -> None:
    """Describe batches and calls in a model's own form."""
    describe(
        "/api/v1/tool-calls/batch",
        "post",
        {
            "operationId": "callTools",
            "summary": "Call several tools; each has its own outcome, in order.",
            "parameters": [BATCH_KEY, PREFER],
            "requestBody": body(BATCH),
            "responses": {"200": answer(OUTCOMES, "One outcome each.")},
        },
    )
    formats = {"type": "string", "enum": [each.value for each in Format], "default": "mcp"}
    describe(
        "/api/v1/tool-calls",
        "post",
        {
            "operationId": "callFromModel",
            "summary": "Take a model's own call object, return the message that answers it.",
            "parameters": [in_query("format", formats), IDEMPOTENCY_KEY, PREFER],
            "requestBody": body(OBJECT),
            "responses": call_answers(OBJECT, "The tool-result message."),
        },
    )


def describe_servers() -> None:
    """Describe connecting, diagnosing and the listings."""
    server = in_path("server")
    url = {"type": ["string", "null"]}
    flag = {"type": "boolean"}
    consent = {
        "type": "object",
        "description": "What the server may ask of the member's app; left out: as before.",
        "properties": {"elicitation": flag, "sampling": flag, "roots": flag},
    }
    properties = {"returnUrl": url, "redirectUri": url, "consent": consent}
    asked = {"type": "object", "properties": properties}
    describe(
        "/api/v1/servers/{server}/connect",
        "post",
        {
            "operationId": "connectServer",
            "summary": "Connect; waits up to 2 seconds for the state to settle.",
            "parameters": [server, PREFER],
            "requestBody": body(asked, required=False),
            "responses": {
                "200": answer(SERVER, "Settled: connected, or what is missing."),
                "202": answer(SERVER, "Still connecting; events tell the rest."),
            },
        },
    )
    describe(
        "/api/v1/servers/{server}/diagnose",
        "post",
        {
            "operationId": "diagnoseServer",
            "summary": "Check a server step by step: name, address, TCP, TLS, HTTP, era, auth.",
            "parameters": [server],
            "responses": {"200": answer(CHECKLIST, "The checklist.")},
        },
    )
    _describe_completion(server)
    for path, key, name in LISTINGS:
        describe(f"/api/v1/servers/{{server}}/{path}", "get", _listing(server, key, name))


def describe_sessions() -> None:
    """Describe what a session itself is asked."""
    server = in_path("server")
    level = {"type": "string", "enum": list(get_args(LoggingLevel))}
    of_level = {"type": "object", "required": ["level"], "properties": {"level": level}}
    describe(
        "/api/v1/servers/{server}/logging-level",
        "post",
        {
            "operationId": "setLoggingLevel",
            "summary": "Set from which level on the server logs; messages are `call.log` events.",
            "parameters": [server],
            "requestBody": body({**of_level, "additionalProperties": False}),
            "responses": call_answers(of_level, "The level."),
        },
    )
    took = {"type": "number", "description": "From the hub's request to the server's answer."}
    pong = {"type": "object", "required": ["durationMs"], "properties": {"durationMs": took}}
    describe(
        "/api/v1/servers/{server}/ping",
        "post",
        {
            "operationId": "pingServer",
            "summary": "Ask whether the server answers: `ping`, or `server/discover`.",
            "parameters": [server],
            "responses": call_answers(pong, "It answered."),
        },
    )


def _describe_completion(server: dict[str, Any]) -> None:
    asked = {
        "type": "object",
        "properties": {"callbackUrl": {"type": "string"}},
        "required": ["callbackUrl"],
    }
    describe(
        "/api/v1/servers/{server}/complete-auth",
        "post",
        {
            "operationId": "completeServerAuth",
            "summary": "Finish a sign-in whose redirect an app has caught.",
            "parameters": [server],
            "requestBody": body(asked),
            "responses": {"200": answer(SERVER, "Signed in; it connects by itself.")},
        },
    )


def _listing(server: dict[str, Any], key: str, name: str) -> dict[str, Any]:
    refresh = in_query("refresh", {"type": "boolean", "default": False}, "Ask the server again.")
    item = {"$ref": "#/components/schemas/ToolOutput"} if key == "tools" else OBJECT
    listing = {
        "type": "object",
        "required": [key, "problems", "isComplete", "error", "ttlMs", "fetchedAt"],
        "properties": {
            key: {"type": "array", "items": item},
            "problems": {
                "type": "array",
                "items": OBJECT,
                "description": "Items that were dropped because they cannot be used, with reasons.",
            },
            "isComplete": {
                "type": "boolean",
                "description": "Every page was read; items that were dropped are in `problems`.",
            },
            "error": {"type": ["object", "null"]},
            "ttlMs": {"type": ["integer", "null"]},
            "fetchedAt": {"type": ["string", "null"], "format": "date-time"},
        },
    }
    return {
        "operationId": name,
        "summary": f"The stored {key} of one server, an MCP list result with the hub's fields.",
        "parameters": [server, refresh],
        "responses": {"200": answer(listing, "The list.")},
    }


describe_calls()
describe_model_calls()
describe_servers()
describe_sessions()
