"""Tools as each model provider takes them; the sources of the rules are in `rules.py`."""

from __future__ import annotations

import json

import pytest

from connectors.provider_profiles import Exportable, Format, export
from connectors.provider_profiles.rules import OPENAPI_KEYWORDS, PROFILES
from connectors.provider_profiles.schemas import UnusableSchemaError, schema_for, subschemas
from mcphub.core.types import JSONObject, JSONValue

PLAIN: JSONObject = {
    "type": "object",
    "properties": {"text": {"type": "string", "minLength": 1}},
    "required": ["text"],
    "additionalProperties": False,
    "$schema": "https://json-schema.org/draft/2020-12/schema",
}


def tool(schema: JSONValue = None, **changes: object) -> Exportable:
    fields: dict[str, object] = {
        "server": "linear",
        "name": "weird.name/search",
        "public_name": "linear__weird_name_search",
        "is_enabled": True,
        "item": {
            "name": "weird.name/search",
            "description": "Finds issues.",
            "inputSchema": PLAIN if schema is None else schema,
            "annotations": {"readOnlyHint": True},
        },
    }
    return Exportable(**{**fields, **changes})  # type: ignore[arg-type]  # a table of fields


def test_every_format_has_its_shape() -> None:
    name = "linear__weird_name_search"
    described = {"name": name, "description": "Finds issues."}
    expected: dict[Format, JSONObject] = {
        Format.MCP: {
            **described,
            "inputSchema": PLAIN,
            "annotations": {"readOnlyHint": True},
        },
        Format.OPENAI: {"type": "function", "function": {**described, "parameters": PLAIN}},
        Format.OPENAI_RESPONSES: {
            "type": "function",
            **described,
            "parameters": PLAIN,
            "strict": False,
        },
        Format.ANTHROPIC: {**described, "input_schema": PLAIN},
        Format.GEMINI: {**described, "parametersJsonSchema": PLAIN},
        Format.GEMINI_OPENAPI: {
            **described,
            "parameters": {
                "type": "object",
                "properties": {"text": {"type": "string", "minLength": 1}},
                "required": ["text"],
            },
        },
        Format.JSON_SCHEMA: {**described, "inputSchema": PLAIN, "outputSchema": None},
    }

    made = {wanted: export(wanted, [tool()]).tools for wanted in Format}

    assert made == {wanted: [shape] for wanted, shape in expected.items()}


def test_the_index_leads_back_and_what_cannot_be_said_is_dropped_with_its_reason() -> None:
    tools = [
        tool(),
        tool(name="off", public_name="linear__off", is_enabled=False),
        tool(name="odd", public_name="1odd"),
        tool(name="list", public_name="linear__list", schema={"type": "array"}),
        tool(name="text", public_name="linear__text", schema="no schema"),
    ]

    made = export(Format.OPENAI, tools)

    assert made.index == {
        "linear__weird_name_search": {"serverId": "linear", "name": "weird.name/search"}
    }
    assert [(one.server, one.name, one.reason) for one in made.dropped] == [
        ("linear", "off", "disabled"),
        ("linear", "odd", "name_not_allowed"),
        ("linear", "list", "root_not_an_object"),
        ("linear", "text", "schema_not_an_object"),
    ]


def test_the_etag_follows_the_content() -> None:
    first = export(Format.OPENAI, [tool()]).etag

    assert export(Format.OPENAI, [tool()]).etag == first
    assert export(Format.ANTHROPIC, [tool()]).etag != first
    assert export(Format.OPENAI, []).etag != first


@pytest.mark.parametrize("wanted", [Format.MCP, Format.JSON_SCHEMA])
def test_schemas_are_relayed_untouched_where_nobody_asks_for_less(wanted: Format) -> None:
    schema: JSONObject = {
        "type": "object",
        "oneOf": [{"required": ["a"]}],
        "$defs": {"loop": {"$ref": "#/$defs/loop"}},
        "x-odd": [1, None],
    }

    assert schema_for(PROFILES[wanted], schema) is schema


@pytest.mark.parametrize(
    "wanted", [Format.OPENAI, Format.OPENAI_RESPONSES, Format.ANTHROPIC, Format.GEMINI]
)
def test_local_references_that_end_are_kept(wanted: Format) -> None:
    schema: JSONObject = {
        "type": "object",
        "properties": {"at": {"$ref": "#/$defs/point"}},
        "$defs": {"point": {"type": "array", "items": {"type": "number"}}},
    }

    assert schema_for(PROFILES[wanted], schema) == schema


def test_root_unions_are_merged_and_put_into_words() -> None:
    schema: JSONObject = {
        "type": "object",
        "description": "Where.",
        "properties": {"unit": {"type": "string"}},
        "required": ["unit"],
        "additionalProperties": False,
        "oneOf": [
            {"properties": {"city": {"type": "string"}}, "required": ["city"]},
            {
                "properties": {"lat": {"type": "number"}, "city": {"type": "null"}},
                "required": ["lat"],
            },
        ],
        "allOf": [{"properties": {"key": {"type": "string"}}, "required": ["key"]}],
    }

    assert schema_for(PROFILES[Format.ANTHROPIC], schema) == {
        "type": "object",
        "description": "Where. Give exactly one of these groups of fields: "
        "(city) or (lat, city (optional)).",
        "properties": {
            "unit": {"type": "string"},
            "city": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "lat": {"type": "number"},
            "key": {"type": "string"},
        },
        "required": ["key", "unit"],
    }


def test_a_root_reference_is_resolved() -> None:
    schema: JSONObject = {
        "$ref": "#/definitions/args",
        "definitions": {"args": {"type": "object", "properties": {"a": {"type": "integer"}}}},
    }

    made = schema_for(PROFILES[Format.OPENAI], schema)

    assert made["type"] == "object"
    assert made["properties"] == {"a": {"type": "integer"}}
    assert "$ref" not in made


@pytest.mark.parametrize(
    "ref", ["https://evil.example/schema.json", "#/$defs/nothing", "other.json#/a", "#anchor"]
)
def test_references_elsewhere_become_anything_and_are_not_fetched(ref: str) -> None:
    schema: JSONObject = {
        "type": "object",
        "properties": {"a": {"$ref": ref, "description": "A thing.", "minimum": 1}},
    }

    made = schema_for(PROFILES[Format.OPENAI], schema)

    assert made["properties"] == {"a": {"description": "A thing."}}


def test_cyclic_references_are_unrolled_three_times() -> None:
    node: JSONObject = {
        "type": "object",
        "properties": {"next": {"$ref": "#/$defs/node"}},
    }
    schema: JSONObject = {
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/node"}},
        "$defs": {"node": node},
    }

    made = schema_for(PROFILES[Format.OPENAI], schema)

    assert not [place for place in subschemas(made) if "$ref" in place]
    assert json.dumps(made).count('"next"') == 3
    assert "$defs" not in made


def test_a_property_that_is_called_definitions_stays() -> None:
    schema: JSONObject = {
        "type": "object",
        "properties": {
            "definitions": {"type": "string", "default": "$ref"},
            "loop": {"$ref": "#/properties/loop"},
        },
    }

    made = schema_for(PROFILES[Format.GEMINI_OPENAPI], schema)

    assert made["properties"] == {
        "definitions": {"type": "string", "default": "$ref"},
        "loop": {"type": "string"},
    }


def _deep(levels: int) -> JSONObject:
    schema: JSONObject = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def _doubling(steps: int) -> JSONObject:
    defs: JSONObject = {
        f"d{n}": {"type": "array", "prefixItems": [{"$ref": f"#/$defs/d{n + 1}"}] * 2}
        for n in range(steps)
    }
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": defs}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (_deep(200), "schema_too_deep"),
        (_doubling(15), "schema_too_large"),
        ({"type": "object", "properties": {f"p{n}": {} for n in range(3000)}}, "schema_too_large"),
        ({"type": "object", "description": "x" * (300 << 10)}, "schema_too_large"),
        ({"type": "string"}, "root_not_an_object"),
        (True, "schema_not_an_object"),
    ],
)
def test_hostile_schemas_are_refused_with_a_reason(schema: JSONValue, reason: str) -> None:
    with pytest.raises(UnusableSchemaError) as caught:
        schema_for(PROFILES[Format.OPENAI], schema)

    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        (
            {"type": ["string", "integer"]},
            {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        ),
        ({"const": "x"}, {"type": "string", "enum": ["x"]}),
        ({"enum": ["a", None]}, {"type": "string", "enum": ["a"], "nullable": True}),
        (
            {"type": "integer", "enum": [1, 2]},
            {"type": "integer", "description": "One of [1, 2]."},
        ),
        (
            {"oneOf": [{"type": "string"}, {"type": "null"}], "description": "D."},
            {"type": "string", "nullable": True, "description": "D."},
        ),
        (
            {"anyOf": [{"type": "string"}, {"type": "number"}]},
            {"anyOf": [{"type": "string"}, {"type": "number"}]},
        ),
        (
            {"type": "number", "exclusiveMinimum": 0, "description": "How many."},
            {"type": "number", "description": "How many. Must be greater than 0."},
        ),
        ({"type": "string", "format": "uri"}, {"type": "string"}),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"type": "array"}, {"type": "array", "items": {"type": "string"}}),
        (
            {"type": "array", "items": {"type": "number"}, "uniqueItems": True},
            {"type": "array", "items": {"type": "number"}},
        ),
        (
            {
                "allOf": [
                    {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                    {"properties": {"b": {"const": 1}}, "required": ["b"]},
                ]
            },
            {
                "type": "object",
                "properties": {
                    "a": {"type": "string"},
                    "b": {"type": "string", "description": "One of [1]."},
                },
                "required": ["a", "b"],
            },
        ),
        (
            {"type": "object", "patternProperties": {"^x": {}}, "propertyNames": {}},
            {"type": "object"},
        ),
    ],
)
def test_the_openapi_subset_says_what_it_can(given: JSONObject, expected: JSONObject) -> None:
    schema: JSONObject = {"type": "object", "properties": {"p": given}}

    made = schema_for(PROFILES[Format.GEMINI_OPENAPI], schema)

    assert made["properties"] == {"p": expected}
    assert {*expected} <= OPENAPI_KEYWORDS


def test_a_tool_without_arguments_has_no_parameters_for_the_older_gemini() -> None:
    made = export(Format.GEMINI_OPENAPI, [tool({"type": "object"})])

    assert made.tools == [{"name": "linear__weird_name_search", "description": "Finds issues."}]
