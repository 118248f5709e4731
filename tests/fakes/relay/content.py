"""What the relay fixture offers: every field of the protocol, and fields that no schema knows."""

from __future__ import annotations

from mcphub.core.types import JSONObject, JSONValue

PIXEL = "iVBORw0KGgo="
TRACE: JSONObject = {"vendor.example/trace": {"id": "t-1", "parts": [1, None, 2.5, "é\u2028"]}}
"""A vendor's metadata: a relay that rewrites it is found out by the null, the float or the text."""
UNKNOWN: JSONObject = {"x-vendor": {"deep": [{"a": None}, []]}}
"""A field that no schema knows."""
ICONS: list[JSONValue] = [{"src": "https://cdn.example/i.png", "mimeType": "image/png"}]
NOTE = "note://1"
ME = "note://me"
VIEW = "ui://relay/view.html"
VIEW_TYPE = "text/html;profile=mcp-app"
UI_EXTENSION = "io.modelcontextprotocol/ui"
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
SERVER_INFO: JSONObject = {
    "name": "relay-fixture",
    "title": "Relay fixture",
    "version": "7.1",
    "websiteUrl": "https://relay.example",
    "icons": ICONS,
}
INSTRUCTIONS = "Use it to find out what a relay does."

SERVER_CAPABILITIES: JSONObject = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
    "experimental": {"vendor.example/beam": {"level": 3}},
}
CORE_TASKS: JSONObject = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}

TOOL_NAMES = (
    "content",
    "whoami",
    "tool_error",
    "protocol_error",
    "progress",
    "log",
    "wait",
    "ask_form",
    "ask_url",
    "sample",
    "sample_tools",
    "roots",
    "two_questions",
    "job",
    "job_asking",
)


def tool(name: str) -> JSONObject:
    described: JSONObject = {
        "name": name,
        "title": f"Tool {name}",
        "description": f"The {name} tool",
        "inputSchema": {
            "type": "object",
            "properties": {"q": {"type": "string", "x-order": 1}},
            "$defs": {"unused": {"type": "null"}},
        },
        "annotations": {"readOnlyHint": True, "title": name},
        "icons": ICONS,
        "_meta": TRACE,
        **UNKNOWN,
    }
    if name == "content":
        described["outputSchema"] = {
            "type": "object",
            "properties": {"sum": {"type": "number"}},
            "required": ["sum"],
        }
        described["_meta"] = {**TRACE, "ui": {"resourceUri": VIEW, "visibility": ["model", "app"]}}
    if name.startswith("job"):
        described["execution"] = {"taskSupport": "optional"}
    return described


def resources() -> list[JSONValue]:
    return [
        {
            "uri": NOTE,
            "name": "one",
            "title": "Note one",
            "description": "A note",
            "mimeType": "text/plain",
            "size": 5,
            "annotations": {"audience": ["user"], "priority": 0.5},
            "icons": ICONS,
            "_meta": TRACE,
            **UNKNOWN,
        },
        {"uri": "note://2", "name": "two", "mimeType": "application/octet-stream"},
        {
            "uri": VIEW,
            "name": "view",
            "mimeType": VIEW_TYPE,
            "_meta": {"ui": {"csp": {"connectDomains": ["https://api.example"]}}},
        },
    ]


TEMPLATES: list[JSONValue] = [
    {
        "uriTemplate": "note://{id}",
        "name": "note",
        "title": "A note",
        "mimeType": "text/plain",
        "_meta": TRACE,
        **UNKNOWN,
    }
]


def prompt(name: str) -> JSONObject:
    return {
        "name": name,
        "title": f"Prompt {name}",
        "description": f"The {name} prompt",
        "arguments": [{"name": "who", "description": "Whom", "required": True, "title": "Who"}],
        "icons": ICONS,
        "_meta": TRACE,
        **UNKNOWN,
    }


def contents(uri: str, who: str) -> JSONObject:
    """Return what reading `uri` yields to somebody; `note://me` is that somebody."""
    if uri == ME:
        body: JSONObject = {"text": who}
    elif uri == VIEW:
        body = {"mimeType": VIEW_TYPE, "text": "<p>view</p>"}
        body["_meta"] = {"ui": {"csp": {"connectDomains": ["https://api.example"]}}}
    elif uri == "note://2":
        body = {"mimeType": "application/octet-stream", "blob": PIXEL}
    else:
        body = {"mimeType": "text/plain", "text": f"text of {uri}", "_meta": TRACE}
    return {"contents": [{"uri": uri, **body, **UNKNOWN}], "_meta": TRACE, **UNKNOWN}


def prompt_result(arguments: JSONObject) -> JSONObject:
    said: JSONObject = {"type": "text", "text": f"hello {arguments.get('who')}", "_meta": TRACE}
    attached: JSONObject = {"type": "resource", "resource": {"uri": NOTE, "text": "text"}}
    return {
        "description": "greets",
        "messages": [{"role": "user", "content": said}, {"role": "assistant", "content": attached}],
        "_meta": TRACE,
        **UNKNOWN,
    }


def call_result(arguments: JSONObject) -> JSONObject:
    """Return a result with every kind of content."""
    return {
        "content": [
            {"type": "text", "text": f"q={arguments.get('q')}", "annotations": {"priority": 1}},
            {"type": "image", "data": PIXEL, "mimeType": "image/png", "_meta": TRACE},
            {"type": "audio", "data": PIXEL, "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": NOTE, "name": "one", "size": 5, "_meta": TRACE},
            {"type": "resource", "resource": {"uri": NOTE, "text": "embedded", **UNKNOWN}},
            {"type": "vendor.example/hologram", "beam": [None, {"k": 1}]},
        ],
        "structuredContent": {"sum": 1.0, "extra": None},
        "isError": False,
        "_meta": {**TRACE, "ui": {"resourceUri": VIEW}},
        **UNKNOWN,
    }


ERROR: JSONObject = {
    "code": -32050,
    "message": "The vendor's own error",
    "data": {"vendor": [None, {"uri": NOTE}], "retryAfter": 1.5},
}

# --- what it asks

FORM: JSONObject = {
    "mode": "form",
    "message": "Who are you?",
    "requestedSchema": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "default": "Ada"},
            "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}]},
        },
        "required": ["name"],
    },
    "_meta": TRACE,
    **UNKNOWN,
}
PAGE: JSONObject = {
    "mode": "url",
    "message": "Pay first.",
    "url": "https://pay.example/step?order=7",
    "elicitationId": "pay-1",
}
SAMPLE: JSONObject = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "Hi", "_meta": TRACE}}],
    "modelPreferences": {"hints": [{"name": "claude"}], "speedPriority": 0.2},
    "systemPrompt": "Be short.",
    "temperature": 0.1,
    "maxTokens": 10,
    "stopSequences": ["."],
    "metadata": {"vendor": None},
    **UNKNOWN,
}
SAMPLE_TOOLS: JSONObject = {
    **SAMPLE,
    "tools": [{"name": "look_up", "inputSchema": {"type": "object"}}],
    "toolChoice": {"mode": "required"},
}
