"""What a schema may be, which schemas are harmless, and how a violation is told; pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

import jsonschema
from jsonschema.protocols import Validator

from mcphub.core.errors import FieldProblem
from mcphub.core.types import JSONObject, JSONValue

SCHEMA_MAX_BYTES = 256 << 10
SCHEMA_MAX_DEPTH = 64
SCHEMA_MAX_PARTS = 2000
PROBLEMS_MAX = 20

# A harmless schema has a known cost: parts of the schema times parts of the arguments.
PLAIN_MAX_BYTES = 16 << 10
PLAIN_MAX_WORK = 20_000
PLAIN_MAX_DEPTH = 32

TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
VALUES = frozenset({"enum", "const", "default", "examples"})
NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
COUNTS = frozenset(
    {"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"}
)
CHOICES = frozenset({"anyOf", "oneOf", "allOf"})
# Keywords that validate by themselves and that the harmless subset leaves out.
COSTLY = frozenset(
    {
        "$anchor", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveAnchor", "$recursiveRef",
        "$ref", "additionalItems", "contains", "contentSchema", "definitions", "$defs",
        "dependencies", "dependentRequired", "dependentSchemas", "disallow", "divisibleBy", "else",
        "extends", "if", "id", "maxContains", "minContains", "multipleOf", "not", "pattern",
        "patternProperties", "prefixItems", "propertyNames", "then", "unevaluatedItems",
        "unevaluatedProperties", "uniqueItems",
    }
)  # fmt: skip
DRAFTS_OF_PLAIN = (
    jsonschema.Draft202012Validator,
    jsonschema.Draft201909Validator,
    jsonschema.Draft7Validator,
    jsonschema.Draft6Validator,
)

DIALECTS: dict[str, type[Validator]] = {
    str(kind.ID_OF(kind.META_SCHEMA)).removesuffix("#"): kind
    for kind in (*DRAFTS_OF_PLAIN, jsonschema.Draft4Validator, jsonschema.Draft3Validator)
}


class Reason(StrEnum):
    """Why arguments were not checked."""

    NONE = ""
    TOO_LARGE = "schema_too_large"
    TOO_DEEP = "too_deep"
    TOO_SLOW = "too_slow"
    DIALECT = "unknown_dialect"
    REFERENCE = "unresolved_reference"
    UNUSABLE = "unusable_schema"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The outcome; `problems` of an unchecked call is empty and says nothing."""

    is_checked: bool
    problems: list[FieldProblem] = field(default_factory=list)
    reason: Reason = Reason.NONE


def dialect(schema: JSONValue) -> type[Validator] | None:
    """Return the validator of `$schema`; 2020-12 when it says nothing; None for an unknown one."""
    if not isinstance(schema, dict) or "$schema" not in schema:
        return jsonschema.Draft202012Validator
    name = schema["$schema"]
    return DIALECTS.get(name.removesuffix("#")) if isinstance(name, str) else None


def survey(schema: JSONValue) -> Reason:
    """Say whether the schema is within the limits of depth and number of parts."""
    stack: list[tuple[JSONValue, int]] = [(schema, 1)]
    parts = 0
    while stack:
        node, depth = stack.pop()
        if depth > SCHEMA_MAX_DEPTH:
            return Reason.TOO_DEEP
        if isinstance(node, list):
            stack.extend((item, depth + 1) for item in node)
        elif isinstance(node, dict):
            parts += 1
            if parts > SCHEMA_MAX_PARTS:
                return Reason.TOO_LARGE
            stack.extend((part, depth + 1) for part in _below(node))
    return Reason.NONE


def _below(node: JSONObject) -> Iterator[JSONValue]:
    for keyword, value in node.items():
        if keyword in MAPS and isinstance(value, dict):
            yield from value.values()
        elif keyword not in VALUES:
            yield value


def plain_weight(schema: JSONValue) -> int:
    """Return the number of parts of a schema that cannot be costly; 0 when it could be.

    Only such a schema is used inside the service's own process, so every keyword's form is checked
    here.
    """
    weight = 0
    stack: list[tuple[JSONValue, int]] = [(schema, 1)]
    while stack:
        node, depth = stack.pop()
        if isinstance(node, bool):
            weight += 1
            continue
        if not isinstance(node, dict) or depth > PLAIN_MAX_DEPTH:
            return 0
        weight += 1
        for keyword, value in node.items():
            if not _is_plain(keyword, value):
                return 0
            parts = _parts(keyword, value)
            weight += len(value) if keyword in {"enum", "required"} and value else 0  # type: ignore[arg-type]  # _is_plain: lists
            stack.extend((part, depth + 1) for part in parts)
    return weight


def _parts(keyword: str, value: JSONValue) -> list[JSONValue]:
    if keyword == "properties" and isinstance(value, dict):
        return list(value.values())
    if keyword in CHOICES and isinstance(value, list):
        return value
    return [value] if keyword in {"items", "additionalProperties"} else []


def _is_plain(keyword: str, value: JSONValue) -> bool:  # noqa: PLR0911  (one line per keyword)
    if keyword in COSTLY:
        return False
    if keyword == "type":
        names = value if isinstance(value, list) else [value]
        return bool(names) and all(isinstance(name, str) and name in TYPES for name in names)
    if keyword == "required":
        return isinstance(value, list) and all(isinstance(name, str) for name in value)
    if keyword == "enum":
        return isinstance(value, list) and all(_is_scalar(item) for item in value)
    if keyword == "const":
        return _is_scalar(value)
    if keyword in NUMBERS:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if keyword in COUNTS:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if keyword == "properties":
        return isinstance(value, dict)
    if keyword in CHOICES:
        return isinstance(value, list) and bool(value)
    return True


def _is_scalar(value: JSONValue) -> bool:
    return not isinstance(value, list | dict)


def parts_of(arguments: JSONValue, most: int) -> int:
    """Return how many values the arguments have; counting ends past `most`."""
    stack = [arguments]
    count = 0
    while stack and count <= most:
        value = stack.pop()
        count += 1
        if isinstance(value, dict):
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)
    return count
