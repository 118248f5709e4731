"""Schemas rewritten for one profile; the original is never changed.

References are inlined where they are remote or cyclic, unions at the root are flattened.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import unquote

from connectors.provider_profiles.openapi import to_openapi
from connectors.provider_profiles.rules import (
    MAX_REPEATS,
    MAX_SCHEMA_BYTES,
    MAX_SCHEMA_DEPTH,
    MAX_SUBSCHEMAS,
    ROOT_UNIONS,
    Profile,
)
from mcphub.core.types import JSONObject, JSONValue

MAPS_OF_SCHEMAS = ("properties", "patternProperties", "dependentSchemas")
LITERALS = ("default", "enum", "const", "example", "examples")
DEFINITIONS = ("$defs", "definitions")


class UnusableSchemaError(ValueError):
    """The schema has no valid form under this profile; the text is the stable reason."""


def schema_for(profile: Profile, schema: JSONValue) -> JSONObject:
    """Return the schema in the form that the profile takes. Raises UnusableSchemaError."""
    if schema is None:
        schema = {"type": "object", "properties": {}}
    if not isinstance(schema, dict):
        raise UnusableSchemaError("schema_not_an_object")
    _check_bounds(schema)
    made = schema
    if profile.is_openapi or (profile.needs_bounded_refs and _has_wild_refs(schema)):
        made = _Inliner(schema).whole()
    if profile.needs_plain_root:
        made = _plain_root(made, schema)
    if profile.is_openapi:
        made = to_openapi(made)
    if len(json.dumps(made)) > MAX_SCHEMA_BYTES:
        raise UnusableSchemaError("schema_too_large")
    return made


def subschemas(value: JSONValue) -> Iterator[JSONObject]:
    """Yield every object inside `value`, itself included, without recursion."""
    waiting: list[JSONValue] = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            yield item
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)


def _check_bounds(schema: JSONObject) -> None:
    """Refuse what is too deep or too wide before anything recurses into it."""
    level: list[JSONValue] = [schema]
    count = 0
    for _ in range(2 * MAX_SCHEMA_DEPTH):
        count += sum(isinstance(item, dict) for item in level)
        if count > MAX_SUBSCHEMAS:
            raise UnusableSchemaError("schema_too_large")
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return
    raise UnusableSchemaError("schema_too_deep")


def _has_wild_refs(schema: JSONObject) -> bool:
    """Whether a reference leaves the document, points nowhere or comes back to itself."""
    ways: dict[str, set[str]] = {}
    waiting = _refs_in(schema)
    while waiting:
        ref = waiting.pop()
        target = _target(schema, ref)
        if target is None:
            return True
        if ref not in ways:
            ways[ref] = set(_refs_in(target))
            waiting.extend(ways[ref])
    return _has_cycle(ways)


def _has_cycle(ways: dict[str, set[str]]) -> bool:
    """Whether some reference leads back to itself; takes away ends until none is left."""
    open_ways = {ref: len(onward) for ref, onward in ways.items()}
    into: dict[str, list[str]] = {ref: [] for ref in ways}
    for ref, onward in ways.items():
        for target in onward:
            into[target].append(ref)
    ends = [ref for ref, count in open_ways.items() if not count]
    left = len(ways)
    while ends:
        left -= 1
        for ref in into[ends.pop()]:
            open_ways[ref] -= 1
            if not open_ways[ref]:
                ends.append(ref)
    return left > 0


def _refs_in(value: JSONValue) -> list[str]:
    refs = [place.get("$ref") for place in subschemas(value)]
    return [ref for ref in refs if isinstance(ref, str)]


def _target(root: JSONObject, ref: str) -> JSONValue:
    """Return what a reference into the same document points at (RFC 6901), None for any other."""
    if ref != "#" and not ref.startswith("#/"):
        return None
    place: JSONValue = root
    for part in ref[2:].split("/") if len(ref) > 1 else ():
        key = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict):
            place = place.get(key)
        elif isinstance(place, list) and key.isdecimal() and int(key) < len(place):
            place = place[int(key)]
        else:
            return None
    return place if isinstance(place, dict) else None


class _Inliner:
    """Replaces every reference by its target; counts what it makes."""

    def __init__(self, root: JSONObject) -> None:
        self.root = root
        self.made = 0

    def whole(self) -> JSONObject:
        return self.schema(self.root, (), 0)

    def schema(self, schema: JSONObject, above: tuple[str, ...], depth: int) -> JSONObject:
        self.made += 1
        if self.made > MAX_SUBSCHEMAS:
            raise UnusableSchemaError("schema_too_large")
        if depth > MAX_SCHEMA_DEPTH:
            raise UnusableSchemaError("schema_too_deep")
        ref = schema.get("$ref")
        rest: JSONObject = {
            key: self.keyword(key, value, above, depth + 1)
            for key, value in schema.items()
            if key not in {"$ref", *DEFINITIONS}
        }
        if not isinstance(ref, str):
            return rest
        target = _target(self.root, ref)
        if not isinstance(target, dict) or above.count(ref) >= MAX_REPEATS:
            return {key: rest[key] for key in ("title", "description") if key in rest}
        return {**self.schema(target, (*above, ref), depth + 1), **rest}

    def keyword(self, key: str, value: JSONValue, above: tuple[str, ...], depth: int) -> JSONValue:
        if key in LITERALS:
            return value
        if key in MAPS_OF_SCHEMAS and isinstance(value, dict):
            return {name: self.value(inner, above, depth) for name, inner in value.items()}
        return self.value(value, above, depth)

    def value(self, value: JSONValue, above: tuple[str, ...], depth: int) -> JSONValue:
        if isinstance(value, dict):
            return self.schema(value, above, depth)
        if isinstance(value, list):
            return [self.value(item, above, depth) for item in value]
        return value


def _plain_root(schema: JSONObject, document: JSONObject) -> JSONObject:
    """Return the schema with `type: object` at the root and no union there."""
    target = schema.get("$ref")
    if isinstance(target, str):
        schema = {**_Inliner(document).schema(schema, (), 0), **_definitions(schema)}
    if any(keyword in schema for keyword in ROOT_UNIONS):
        schema = _flattened(schema, document)
    kind = schema.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise UnusableSchemaError("root_not_an_object")
    properties = schema.get("properties")
    return {
        **schema,
        "type": "object",
        "properties": properties if isinstance(properties, dict) else {},
    }


def _definitions(schema: JSONObject) -> JSONObject:
    return {key: schema[key] for key in DEFINITIONS if key in schema}


def _flattened(schema: JSONObject, document: JSONObject) -> JSONObject:
    """Merge the branches of root unions; what they said is put into words in the description."""
    made = {
        key: value
        for key, value in schema.items()
        if key not in {*ROOT_UNIONS, "additionalProperties", "unevaluatedProperties"}
    }
    properties = _properties(schema)
    required = _required(schema)
    notes: list[str] = []
    for keyword in ROOT_UNIONS:
        branches = _branches(schema.get(keyword), document)
        for branch in branches:
            _merge(properties, _properties(branch))
        needs = [_required(branch) for branch in branches]
        if not needs:
            continue
        if keyword == "allOf":
            required = set().union(required, *needs)
        else:
            required |= set.intersection(*needs)
            notes.append(_in_words(keyword, branches))
    made["properties"] = properties
    made["required"] = [*sorted(required & properties.keys())]
    text = " ".join(filter(None, [str(made.get("description") or ""), *notes]))
    return {**made, "description": text} if text else made


def _branches(value: JSONValue, document: JSONObject) -> list[JSONObject]:
    branches = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
    made = [_Inliner(document).schema(item, (), 0) if "$ref" in item else item for item in branches]
    return [
        _flattened(item, document) if any(word in item for word in ROOT_UNIONS) else item
        for item in made
    ]


def _properties(schema: JSONObject) -> JSONObject:
    properties = schema.get("properties")
    return dict(properties) if isinstance(properties, dict) else {}


def _required(schema: JSONObject) -> set[str]:
    required = schema.get("required")
    return {str(name) for name in required} if isinstance(required, list) else set()


def _merge(into: JSONObject, more: JSONObject) -> None:
    """Add properties; one that is described differently takes either description."""
    for name, schema in more.items():
        known = into.get(name)
        if known is None or known == schema:
            into[name] = schema
            continue
        either = known.get("anyOf") if isinstance(known, dict) and len(known) == 1 else None
        choices: list[JSONValue] = [*either] if isinstance(either, list) else [known]
        into[name] = {"anyOf": choices if schema in choices else [*choices, schema]}


def _in_words(keyword: str, branches: list[JSONObject]) -> str:
    groups = []
    for branch in branches:
        names = [*_properties(branch)]
        required = _required(branch)
        listed = [name if name in required else f"{name} (optional)" for name in names]
        groups.append("(" + ", ".join(listed or sorted(required)) + ")")
    count = "exactly one" if keyword == "oneOf" else "at least one"
    return f"Give {count} of these groups of fields: {' or '.join(groups)}."
