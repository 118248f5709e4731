"""Turns violations of a schema into field problems; texts are the hub's own and quote no value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from jsonschema import ValidationError
from jsonschema.protocols import Validator

from connectors.argument_check.rules import PROBLEMS_MAX
from mcphub.core.errors import FieldProblem
from mcphub.core.types import JSONValue

ROOT = "/arguments"
POINTER_MAX = 500
TEXTS = {
    "enum": "is not one of the allowed values",
    "const": "is not the one allowed value",
    "pattern": "does not have the required form",
    "anyOf": "has none of the allowed forms",
    "oneOf": "has none, or more than one, of the allowed forms",
    "not": "has a form that is not allowed",
    "uniqueItems": "has the same item twice",
}
LIMITS = {
    "minimum": "is less than {}",
    "maximum": "is greater than {}",
    "exclusiveMinimum": "is not greater than {}",
    "exclusiveMaximum": "is not less than {}",
    "minLength": "is shorter than {} characters",
    "maxLength": "is longer than {} characters",
    "minItems": "has fewer than {} items",
    "maxItems": "has more than {} items",
    "minProperties": "has fewer than {} fields",
    "maxProperties": "has more than {} fields",
    "multipleOf": "is not a multiple of {}",
}
CODES = {"enum": "not_allowed", "const": "not_allowed"}


def problems_of(validator: Validator, arguments: JSONValue) -> list[FieldProblem]:
    """Return what is wrong with the arguments, at most 20 problems, each once."""
    found = (problem for error in validator.iter_errors(arguments) for problem in _told(error))
    return list(islice(_once(found), PROBLEMS_MAX))


def pointer(steps: Iterable[str | int]) -> str:
    """Return the RFC 6901 pointer below `/arguments`."""
    escaped = (str(step).replace("~", "~0").replace("/", "~1") for step in steps)
    return "/".join((ROOT, *escaped))[:POINTER_MAX]


def _once(problems: Iterable[FieldProblem]) -> Iterator[FieldProblem]:
    seen: set[FieldProblem] = set()
    for problem in problems:
        if problem not in seen:
            seen.add(problem)
            yield problem


def _told(error: ValidationError) -> Iterator[FieldProblem]:
    steps = list(error.absolute_path)
    keyword = str(error.validator)
    if keyword == "required" and isinstance(error.instance, dict):
        names = error.validator_value
        for name in names if isinstance(names, list) else ():
            if name not in error.instance:
                path = pointer([*steps, name])
                yield FieldProblem(path=path, message="is required", code="required")
        return
    if keyword == "additionalProperties" and (extra := _extra(error)):
        for name in extra:
            path = pointer([*steps, name])
            yield FieldProblem(path=path, message="is not a known field", code="unexpected")
        return
    types = _expected_types(error, keyword)
    message = f"is not of type {' or '.join(types)}" if types else _text(error, keyword)
    code = "wrong_type" if types else CODES.get(keyword, "invalid")
    yield FieldProblem(path=pointer(steps), message=message, code=code)


def _extra(error: ValidationError) -> list[str]:
    schema = error.schema
    if not isinstance(schema, dict) or "patternProperties" in schema:
        return []
    if error.validator_value is not False or not isinstance(error.instance, dict):
        return []
    return [name for name in error.instance if name not in schema.get("properties", {})]


def _text(error: ValidationError, keyword: str) -> str:
    if keyword in LIMITS and isinstance(error.validator_value, int | float):
        return LIMITS[keyword].format(str(error.validator_value)[:40])
    return TEXTS.get(keyword, "does not have the form that the tool asks for")


def _expected_types(error: ValidationError, keyword: str) -> list[str]:
    """Return the types asked for, also of choices that differ in nothing else: integer or null."""
    if keyword == "type":
        return _types(error.validator_value)
    if keyword != "anyOf":
        return []
    inner = error.context or []
    if any(one.validator != "type" or one.relative_path for one in inner):
        return []
    return [name for one in inner for name in _types(one.validator_value)]


def _types(value: object) -> list[str]:
    return [str(name)[:20] for name in (value if isinstance(value, list) else [value])]
