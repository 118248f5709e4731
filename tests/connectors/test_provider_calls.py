"""A model's own call object, and the message that goes back to the model."""

from __future__ import annotations

import json

import pytest

from connectors.provider_profiles import Format, ModelCall, read_call
from connectors.provider_profiles import result_message as message
from mcphub.core.errors import InvalidInputError
from mcphub.core.types import JSONObject

CALL = ModelCall(id="call_1", public_name="linear__search", arguments={"q": "x"})


@pytest.mark.parametrize(
    ("wanted", "body", "call"),
    [
        (
            Format.OPENAI,
            {"id": "call_1", "function": {"name": "linear__search", "arguments": '{"q":"x"}'}},
            CALL,
        ),
        (
            Format.OPENAI_RESPONSES,
            {"call_id": "call_1", "id": "fc_9", "name": "linear__search", "arguments": '{"q":"x"}'},
            CALL,
        ),
        (
            Format.ANTHROPIC,
            {"type": "tool_use", "id": "call_1", "name": "linear__search", "input": {"q": "x"}},
            CALL,
        ),
        (
            Format.GEMINI,
            {"functionCall": {"id": "call_1", "name": "linear__search", "args": {"q": "x"}}},
            CALL,
        ),
        (Format.GEMINI, {"id": "call_1", "name": "linear__search", "args": {"q": "x"}}, CALL),
        (
            Format.GEMINI_OPENAPI,
            {"functionCall": {"name": "linear__search"}},
            ModelCall(id="", public_name="linear__search", arguments={}),
        ),
        (Format.MCP, {"id": "call_1", "name": "linear__search", "arguments": {"q": "x"}}, CALL),
        (
            Format.OPENAI,
            {"id": "call_1", "function": {"name": "linear__search", "arguments": ""}},
            ModelCall(id="call_1", public_name="linear__search", arguments={}),
        ),
    ],
)
def test_the_call_object_of_a_model_is_read(
    wanted: Format, body: JSONObject, call: ModelCall
) -> None:
    assert read_call(wanted, body) == call


@pytest.mark.parametrize(
    ("wanted", "body", "path"),
    [
        (Format.OPENAI, {}, "/function"),
        (Format.OPENAI, {"function": {}}, "/function/name"),
        (Format.OPENAI, {"function": {"name": "a", "arguments": "{"}}, "/function/arguments"),
        (Format.OPENAI, {"function": {"name": "a", "arguments": "[]"}}, "/function/arguments"),
        (Format.OPENAI_RESPONSES, {"name": 1}, "/name"),
        (Format.ANTHROPIC, {"name": "a", "input": []}, "/input"),
        (Format.GEMINI, {"functionCall": {"name": "a", "args": 1}}, "/functionCall/args"),
        (Format.GEMINI, {"functionCall": None, "name": "a"}, "/functionCall"),
        (Format.GEMINI, {"name": "a", "args": 1}, "/args"),
        (Format.GEMINI_OPENAPI, {}, "/name"),
        (Format.MCP, {"name": "a", "arguments": "x"}, "/arguments"),
    ],
)
def test_a_call_object_that_is_wrong_names_the_place(
    wanted: Format, body: JSONObject, path: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_call(wanted, body)

    assert [problem.path for problem in caught.value.problems] == [path]


RESULT: JSONObject = {
    "content": [
        {"type": "text", "text": "Found 2."},
        {"type": "image", "mimeType": "image/png", "data": "aGVsbG8="},
        {"type": "resource_link", "uri": "file:///a", "name": "a"},
        {"type": "resource", "resource": {"uri": "file:///b", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "file:///c", "blob": "AA=="}},
        {"type": "future", "x": 1},
    ],
    "structuredContent": {"count": 2},
}
TEXT = (
    "Found 2.\n[image image/png, 6 bytes]\n[resource file:///a]\ninside\n[resource file:///c]\n"
    '{"type": "future", "x": 1}'
)


def test_results_become_the_message_that_goes_back_to_the_model() -> None:
    messages = {wanted: message(wanted, CALL, RESULT) for wanted in Format}

    gemini: JSONObject = {
        "role": "user",
        "parts": [
            {
                "functionResponse": {
                    "name": "linear__search",
                    "id": "call_1",
                    "response": {"output": {"count": 2}},
                }
            }
        ],
    }
    text, image, *others = TEXT.split("\n")
    source = {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}
    assert image
    assert messages == {
        Format.MCP: RESULT,
        Format.JSON_SCHEMA: RESULT,
        Format.OPENAI: {"role": "tool", "tool_call_id": "call_1", "content": TEXT},
        Format.OPENAI_RESPONSES: {
            "type": "function_call_output",
            "call_id": "call_1",
            "output": TEXT,
        },
        Format.ANTHROPIC: {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "call_1",
                    "content": [
                        {"type": "text", "text": text},
                        {"type": "image", "source": source},
                        *({"type": "text", "text": other} for other in others),
                    ],
                    "is_error": False,
                }
            ],
        },
        Format.GEMINI: gemini,
        Format.GEMINI_OPENAPI: gemini,
    }


def test_tool_errors_stay_visible_to_the_model() -> None:
    failed: JSONObject = {"content": [{"type": "text", "text": "No access."}], "isError": True}

    anthropic = message(Format.ANTHROPIC, CALL, failed)
    gemini = message(Format.GEMINI, CALL, failed)

    assert '"is_error": true' in json.dumps(anthropic)
    assert '"response": {"error": "No access."}' in json.dumps(gemini)


def test_a_result_without_content_is_its_structured_content() -> None:
    made = message(Format.OPENAI, CALL, {"content": [], "structuredContent": {"n": 1}})

    assert made["content"] == '{"n": 1}'
