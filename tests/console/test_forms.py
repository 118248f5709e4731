"""Forms made of schemas: what goes in comes out, and what does not fit is said at its field."""

from __future__ import annotations

import json
from typing import Any

from tests.console.browser import Page

TEAM = {
    "type": "object",
    "required": ["key"],
    "properties": {
        "key": {"type": "string", "pattern": "^[A-Z]+$"},
        "parent": {"$ref": "#/$defs/team"},
    },
}
ISSUE = {
    "type": "object",
    "required": ["title", "priority", "team"],
    "$defs": {"team": TEAM},
    "properties": {
        "title": {"type": "string", "minLength": 3},
        "priority": {"type": "integer", "enum": [0, 1, 2, 3]},
        "team": {"$ref": "#/$defs/team"},
        "due": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
        "labels": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "meta": {"type": "object", "additionalProperties": True},
    },
}
EMAIL = {"properties": {"kind": {"const": "email"}, "to": {"type": "string"}}}
SMS = {"properties": {"kind": {"const": "sms"}, "phone": {"type": "string"}}}
UNION = {
    "type": "object",
    "anyOf": [
        {**EMAIL, "required": ["kind", "to"]},
        {**SMS, "required": ["kind", "phone"]},
    ],
}
ALL_OF = {
    "allOf": [
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        {"properties": {"b": {"type": ["boolean", "null"]}}},
    ]
}
CORPUS: dict[str, tuple[Any, Any]] = {
    "nullable, enum, recursive, list, unknown": (
        ISSUE,
        {
            "title": "Crash",
            "priority": 2,
            "team": {"key": "ENG", "parent": {"key": "CORE"}},
            "due": None,
            "labels": ["a", "b"],
            "meta": {"any": [1, {"x": None}]},
            "unknown": 7,
        },
    ),
    "union at the root": (UNION, {"kind": "sms", "phone": "1"}),
    "allOf": (ALL_OF, {"a": 1, "b": None}),
    "typed enums": (
        {"type": "object", "properties": {"v": {"enum": [1, "1", True, None, [1], {"a": 1}]}}},
        {"v": {"a": 1}},
    ),
    "nested lists": (
        {
            "type": "object",
            "properties": {
                "m": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}
            },
        },
        {"m": [[1, 2.5], [], [3]]},
    ),
    "empty text and empty list": (
        {
            "type": "object",
            "properties": {
                "t": {"type": "string"},
                "l": {"type": "array", "items": {"type": "string"}},
            },
        },
        {"t": "", "l": []},
    ),
    "a schema of any kind": (True, {"x": [1, None]}),
    "a remote reference": (
        {"type": "object", "properties": {"r": {"$ref": "https://canary.example/s.json"}}},
        {"r": {"a": 1}},
    ),
}
LOAD = "const { SchemaForm } = await import('/static/console/schema-form.js');"


def run(page: Page, body: str) -> Any:
    return page.js(f"(async () => {{ {LOAD} {body} }})()")


def test_values_survive_the_form(page: Page) -> None:
    """One page for the corpus: the form is pure, only the page is dear."""
    came_back = {
        name: run(
            page,
            f"return new SchemaForm({json.dumps(schema)}, {{ value: {json.dumps(value)} }}).value",
        )
        for name, (schema, value) in CORPUS.items()
    }
    assert came_back == {name: value for name, (_, value) in CORPUS.items()}


def test_errors_are_at_their_fields_and_the_rest_is_returned(page: Page) -> None:
    bad = {"title": "x", "priority": "2", "team": {"key": "eng"}, "labels": ["a", "a"]}
    found = run(
        page,
        f"""const form = new SchemaForm({json.dumps(ISSUE)}, {{ value: {json.dumps(bad)} }});
        const errors = form.validate();
        const homeless = form.showErrors([...errors, {{ path: "/nowhere", message: "is odd" }}]);
        const shown = [...form.element.querySelectorAll('.field-error:not([hidden])')];
        return [errors.map(e => `${{e.path}} ${{e.keyword}}`).sort(), homeless.map(e => e.path),
                shown.length, form.element.querySelectorAll('[aria-invalid=true]').length];""",
    )
    assert found[0] == [
        "/labels uniqueItems",
        "/priority required",
        "/team/key pattern",
        "/title minLength",
    ]
    assert found[1] == ["/nowhere"]
    assert found[2] == 4
    assert found[3] >= 3


def test_formats_have_no_empty_text_and_dates_a_date_field(page: Page) -> None:
    schema = {"type": "object", "properties": {"d": {"type": "string", "format": "date"}}}
    kinds = run(
        page,
        f"""const {{ element }} = new SchemaForm({json.dumps(schema)});
        return [...element.querySelectorAll('input')].map(e => e.type);""",
    )
    assert kinds == ["date"]


def test_three_hundred_fields_are_made_quickly(page: Page) -> None:
    schema = {"type": "object", "properties": {f"f{n}": {"type": "string"} for n in range(300)}}
    took = run(
        page,
        f"""const start = performance.now(); new SchemaForm({json.dumps(schema)});
        return performance.now() - start;""",
    )
    assert took < 1000


def test_uri_templates_expand_as_in_the_examples_of_rfc_6570(page: Page) -> None:
    values = {"var": "value", "hello": "Hello World!", "path": "/foo/bar", "list": ["a", "b"]}
    expected = {
        "{var}": "value",
        "{hello}": "Hello%20World%21",
        "{+hello}": "Hello%20World!",
        "{+path}/here": "/foo/bar/here",
        "{#path,var}": "#/foo/bar,value",
        "X{.var,hello}": "X.value.Hello%20World%21",
        "{/var,path}": "/value/%2Ffoo%2Fbar",
        "{;hello:5}": ";hello=Hello",
        "{?var,list*}": "?var=value&list=a&list=b",
        "{&list}": "&list=a,b",
        "{var:3}": "val",
        "a{undef}b": "ab",
    }
    found = page.js(
        "import('/static/console/uri-template.js').then(({ expand }) => Object.fromEntries("
        f"{json.dumps(list(expected))}.map(t => [t, expand(t, {json.dumps(values)})])))"
    )
    assert found == expected
