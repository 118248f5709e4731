"""JSON Schema as the OpenAPI 3.0 subset of Gemini's older `parameters`; references are gone by now.

What the subset cannot say is put into words in the description or left out; arguments are checked
against the original schema anyway.
"""

from __future__ import annotations

import json

from connectors.provider_profiles.rules import OPENAPI_FORMATS, OPENAPI_KEYWORDS
from mcphub.core.types import JSONObject, JSONValue

IN_WORDS = {
    "exclusiveMinimum": "greater than",
    "exclusiveMaximum": "less than",
    "multipleOf": "a multiple of",
}


def to_openapi(schema: JSONObject) -> JSONObject:
    """Return one schema, and all inside it, within the subset."""
    schema = _merged_all_of(schema)
    made: JSONObject = {key: value for key, value in schema.items() if key in OPENAPI_KEYWORDS}
    _set_type(made, schema)
    _set_enum(made, schema)
    _set_choices(made, schema)
    properties = schema.get("properties")
    if isinstance(properties, dict):
        made["properties"] = {name: _inner(value) for name, value in properties.items()}
    if made.get("type") == "array":
        made["items"] = _inner(schema.get("items"))
    known = OPENAPI_FORMATS.get(str(made.get("type")), frozenset())
    if made.get("format") not in known:
        made.pop("format", None)
    _describe(made, schema)
    return made


def _inner(value: JSONValue) -> JSONObject:
    """Return an inner schema; "anything" (`true`, {}) can only be said as a string."""
    made = to_openapi(value) if isinstance(value, dict) else {}
    return made if made.get("type") or made.get("anyOf") else {**made, "type": "string"}


def _merged_all_of(schema: JSONObject) -> JSONObject:
    branches = schema.get("allOf")
    if not isinstance(branches, list):
        return schema
    made = {key: value for key, value in schema.items() if key != "allOf"}
    for branch in branches:
        if not isinstance(branch, dict):
            continue
        inner = _merged_all_of(branch)
        properties = {**_object(made.get("properties")), **_object(inner.get("properties"))}
        required = [*_list(made.get("required")), *_list(inner.get("required"))]
        made = {**inner, **made}
        if properties:
            made["properties"] = properties
        if required:
            made["required"] = [*dict.fromkeys(str(name) for name in required)]
    return made


def _set_type(made: JSONObject, schema: JSONObject) -> None:
    """Say a list of types as `nullable`, and a choice when more than one type is left."""
    kinds = schema.get("type")
    if not isinstance(kinds, list):
        if kinds is None and isinstance(schema.get("properties"), dict):
            made["type"] = "object"
        return
    names = [kind for kind in kinds if kind != "null"]
    made.pop("type", None)
    if len(names) < len(kinds):
        made["nullable"] = True
    if len(names) == 1:
        made["type"] = names[0]
    elif names:
        made["anyOf"] = [{"type": name} for name in names]


def _set_enum(made: JSONObject, schema: JSONObject) -> None:
    """Only strings may be enumerated; other values are said in words."""
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(values, list):
        return
    if None in values:
        made["nullable"] = True
    wanted = [value for value in values if value is not None]
    if wanted and all(isinstance(value, str) for value in wanted):
        made["type"] = "string"
        made["enum"] = [*wanted]
    else:
        made.pop("enum", None)


def _set_choices(made: JSONObject, schema: JSONObject) -> None:
    """`oneOf` is said as `anyOf`; a choice with null is `nullable`."""
    choices = [*_list(schema.get("anyOf")), *_list(schema.get("oneOf"))]
    if not choices:
        return
    kept = [item for item in choices if isinstance(item, dict) and item.get("type") != "null"]
    made.pop("anyOf", None)
    if len(kept) < len(choices):
        made["nullable"] = True
    if len(kept) == 1:
        made.update({**_inner(kept[0]), **made})
    elif kept:
        made["anyOf"] = [_inner(item) for item in kept]


def _describe(made: JSONObject, schema: JSONObject) -> None:
    words = [
        f"Must be {text} {json.dumps(schema[key])}."
        for key, text in IN_WORDS.items()
        if isinstance(schema.get(key), int | float)
    ]
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list) and "enum" not in made:
        words.append(f"One of {json.dumps(values)}.")
    if words:
        made["description"] = " ".join(
            [*filter(None, [str(made.get("description") or "")]), *words]
        )


def _object(value: JSONValue) -> JSONObject:
    return value if isinstance(value, dict) else {}


def _list(value: JSONValue) -> list[JSONValue]:
    return value if isinstance(value, list) else []
