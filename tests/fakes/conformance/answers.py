"""What the reference server of the suite's server leg answers and asks."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping

import mcp_types as types

from mcphub.core.types import JSONObject, JSONValue

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8"
    "z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
WAV = base64.b64encode(
    b"RIFF\x26\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\2\0\0\0\0\0"
).decode()
Responses = Mapping[str, object]


def text(value: str) -> types.TextContent:
    return types.TextContent(type="text", text=value)


def image() -> types.ImageContent:
    return types.ImageContent(type="image", data=PNG, mime_type="image/png")


def audio() -> types.AudioContent:
    return types.AudioContent(type="audio", data=WAV, mime_type="audio/wav")


def embedded(uri: str, body: str, mime_type: str = "text/plain") -> types.EmbeddedResource:
    contents = types.TextResourceContents(uri=uri, mime_type=mime_type, text=body)
    return types.EmbeddedResource(type="resource", resource=contents)


def mixed() -> list[types.ContentBlock]:
    data = json.dumps({"test": "data", "value": 123})
    return [
        text("Multiple content types test:"),
        image(),
        embedded("test://mixed-content-resource", data, "application/json"),
    ]


FIXED: Mapping[str, Callable[[], list[types.ContentBlock]]] = {
    "test_image_content": lambda: [image()],
    "test_audio_content": lambda: [audio()],
    "test_embedded_resource": lambda: [
        embedded("test://embedded-resource", "This is an embedded resource content.")
    ],
    "test_multiple_content_types": mixed,
}

# --- what the tools of the handshake era ask


def wanted(**properties: JSONObject) -> JSONObject:
    return {"type": "object", "properties": dict(properties), "required": list(properties)}


def choices(**titles: str) -> list[JSONValue]:
    return [{"const": value, "title": title} for value, title in titles.items()]


REPLY = wanted(response={"type": "string"})
DEFAULTS: JSONObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    },
}
ENUMS = wanted(
    untitledSingle={"type": "string", "enum": ["option1", "option2", "option3"]},
    titledSingle={
        "type": "string",
        "oneOf": choices(value1="First Option", value2="Second Option"),
    },
    legacyEnum={
        "type": "string",
        "enum": ["opt1", "opt2"],
        "enumNames": ["Option One", "Option Two"],
    },
    untitledMulti={"type": "array", "items": {"type": "string", "enum": ["option1", "option2"]}},
    titledMulti={
        "type": "array",
        "items": {"anyOf": choices(value1="First Choice", value2="Second Choice")},
    },
)
SCHEMA_2020: JSONObject = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "additionalProperties": False,
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
}

# --- what the tools of 2026-07-28 ask


def form(message: str, **properties: JSONObject) -> types.ElicitRequest:
    params = types.ElicitRequestFormParams(message=message, requested_schema=wanted(**properties))
    return types.ElicitRequest(params=params)


def sample(question: str) -> types.CreateMessageRequest:
    messages = [types.SamplingMessage(role="user", content=text(question))]
    params = types.CreateMessageRequestParams(messages=messages, max_tokens=50)
    return types.CreateMessageRequest(params=params)


def field(responses: Responses, key: str, name: str) -> object:
    """Return one field of an answered form."""
    answer = responses.get(key)
    return (answer.content or {}).get(name) if isinstance(answer, types.ElicitResult) else None


def said(responses: Responses, key: str) -> str:
    """Return what the client's model said."""
    answer = responses.get(key)
    content = getattr(answer, "content", None)
    return content.text if isinstance(content, types.TextContent) else "?"


def roots(responses: Responses, key: str) -> int:
    answer = responses.get(key)
    return len(answer.roots) if isinstance(answer, types.ListRootsResult) else 0
