"""What a stored JSON-RPC message hides and how much of it is kept; pure, no Django.

Hidden are values under telling names (structural), the secrets known for the connection in every
spelling they travel in (by value), and what a tool's schema declares secret. The text that comes
out is JSON, storable in any database (no NUL, no lone surrogate), at most 64 levels deep and at
most `limit` bytes long. Small messages without a suspicious word take a path without a walk.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from mcphub.core.types import JSONObject, JSONValue
from tracing.secrets import MARK, NO_SECRETS, KnownSecrets, hide_inline, is_telling, is_telling_text

CUT = "…[truncated]"
DEEPEST = 64
SMALL = 64 << 10
SCHEMA_KEYS = frozenset({"inputSchema", "outputSchema", "requestedSchema"})
SCHEMA_MAPS = frozenset({"properties", "$defs", "definitions", "patternProperties"})
SCHEMA_LITERALS = frozenset({"default", "const", "enum", "examples"})
MARGIN = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What is to be hidden in the messages of one session or call."""

    secrets: KnownSecrets = NO_SECRETS
    names: frozenset[str] = frozenset()
    """Lower-case argument names that the tool's schema declares secret: `secret_names(schema)`."""
    limit: int = 256 << 10


@dataclass(frozen=True, slots=True)
class Redacted:
    """JSON text to store; `redacted`: something is hidden, `truncated`: something is missing."""

    text: str
    redacted: bool
    truncated: bool


DEFAULT_RULES = Rules()


def redact(message: JSONValue, rules: Rules = DEFAULT_RULES, *, size: int = 0) -> Redacted:
    """Return the message as it may be stored. `size`: its bytes on the wire, if known."""
    if size <= rules.limit:
        text = _plain(message, rules)
        if text is not None:
            return Redacted(text, redacted=False, truncated=False)
    budget = rules.limit
    while True:
        walk = _Walk(rules, budget)
        text = _dump(walk.value(message, 0, _Place()))
        length = len(text) if text.isascii() else len(text.encode())
        if length <= rules.limit or budget < 16:
            return Redacted(text, walk.is_redacted, walk.is_truncated)
        budget = min(budget // 2, budget * rules.limit // length)


def redact_raw(raw: bytes, rules: Rules = DEFAULT_RULES) -> Redacted:
    """Return bytes that are no JSON-RPC message as a JSON string; stray bytes are spelled out."""
    text = raw[: rules.limit + MARGIN].decode("utf-8", "backslashreplace")
    result = redact(text, rules, size=len(raw))
    return Redacted(result.text, result.redacted, result.truncated or len(raw) > rules.limit)


def storable(text: str, length: int) -> str:
    """Return `text` for a column of `length` characters: no NUL, no lone surrogate."""
    return text[:length].encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")[:length]


def secret_names(schema: JSONValue) -> frozenset[str]:
    """Return the lower-case names of properties with `format: password` or `writeOnly`, any depth.

    At most 5,000 nodes are looked at: the schema is the upstream server's.
    """
    found: set[str] = set()
    nodes: list[JSONValue] = [schema]
    for _ in range(5000):
        if not nodes:
            break
        node = nodes.pop()
        if isinstance(node, list):
            nodes.extend(node)
        elif isinstance(node, dict):
            nodes.extend(node.values())
            properties = node.get("properties")
            if isinstance(properties, dict):
                found.update(n.lower() for n, child in properties.items() if _is_secret(child))
    return frozenset(found)


def _is_secret(schema: JSONValue) -> bool:
    return isinstance(schema, dict) and (
        schema.get("format") == "password" or schema.get("writeOnly") is True
    )


def _dump(value: JSONValue) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _plain(message: JSONValue, rules: Rules) -> str | None:
    """Return the message's text when nothing in it can need hiding, cutting or cleaning."""
    try:
        text = _dump(message)
        length = len(text) if text.isascii() else len(text.encode())
    except (ValueError, RecursionError):
        return None
    if length > rules.limit or rules.names or is_telling_text(text):
        return None
    if rules.secrets.is_in(text) or (
        text.count("{") + text.count("[") > DEEPEST and _is_deep(message)
    ):
        return None
    return text


def _is_deep(message: JSONValue) -> bool:
    level: list[JSONValue] = [message]
    for _ in range(DEEPEST):
        below: list[JSONValue] = []
        for value in level:
            if isinstance(value, dict):
                below.extend(value.values())
            elif isinstance(value, list):
                below.extend(value)
        if not below:
            return False
        level = below
    return True


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the message the walk is."""

    in_arguments: bool = False
    in_schema: bool = False
    is_names: bool = False
    """The keys here are property names of a schema, not of an object."""
    hides_literals: bool = False


@dataclass(slots=True)
class _Walk:
    """One bounded copy of a message; stops adding when `left` is used up."""

    rules: Rules
    left: int
    is_redacted: bool = False
    is_truncated: bool = False

    def value(self, value: JSONValue, depth: int, place: _Place) -> JSONValue:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict | list):
            if depth >= DEEPEST:
                self.is_truncated = True
                return CUT
            self.left -= 2
            if isinstance(value, dict):
                return self._object(value, depth + 1, place)
            return self._list(value, depth + 1, place)
        return self._scalar(value)

    def _object(self, value: JSONObject, depth: int, place: _Place) -> JSONObject:
        copy: JSONObject = {}
        is_pair = isinstance(name := value.get("name"), str) and is_telling(name)
        for key, child in value.items():
            if self.left <= 0:
                self.is_truncated = True
                break
            self.left -= 4
            shown = self._text(key)
            hidden = self._is_hidden(key, child, place) or (is_pair and key == "value")
            if hidden and child is not None and child != "" and not isinstance(child, bool):
                self.is_redacted = True
                self.left -= len(MARK)
                copy[shown] = MARK
            else:
                copy[shown] = self.value(child, depth, _inside(key, place))
        return copy

    def _list(self, value: list[JSONValue], depth: int, place: _Place) -> list[JSONValue]:
        copy: list[JSONValue] = []
        for child in value:
            if self.left <= 0:
                self.is_truncated = True
                break
            self.left -= 1
            copy.append(self.value(child, depth, place))
        return copy

    def _is_hidden(self, key: str, child: JSONValue, place: _Place) -> bool:
        if place.in_schema:
            if place.is_names:
                return not isinstance(child, dict | bool) and is_telling(key)
            return place.hides_literals and key in SCHEMA_LITERALS
        if place.in_arguments and key.lower() in self.rules.names:
            return True
        if isinstance(child, int | float) and key.lower().endswith("tokens"):
            return False
        return is_telling(key)

    def _text(self, text: str) -> str:
        cut = text[: max(self.left, 0) + MARGIN]
        shown = self.rules.secrets.hide(hide_inline(cut) if is_telling_text(cut) else cut)
        if shown != cut:
            self.is_redacted = True
        if not shown.isascii():
            shown = shown.encode("utf-8", "backslashreplace").decode()
        if len(shown) > self.left or len(cut) < len(text):
            self.is_truncated = True
            shown = shown[: max(self.left, 0)] + CUT
        self.left -= len(shown)
        return shown

    def _scalar(self, value: float | bool | None) -> JSONValue:  # noqa: FBT001  (a JSON scalar)
        if value is None or isinstance(value, bool):
            self.left -= 5
            return value
        try:
            text = repr(value)
        except ValueError:
            self.left -= 30
            return f"[integer of {int(value).bit_length()} bits]"
        self.left -= len(text)
        if self.rules.secrets.is_one(text):
            self.is_redacted = True
            return MARK
        return value if text not in {"nan", "inf", "-inf"} else text


def _inside(key: str, place: _Place) -> _Place:
    if place.in_schema:
        if place.is_names:
            return _Place(in_schema=True, hides_literals=is_telling(key))
        return _Place(in_schema=True, is_names=key in SCHEMA_MAPS)
    if key in SCHEMA_KEYS:
        return _IN_SCHEMA
    if key == "arguments":
        return _IN_ARGUMENTS
    return place


_IN_SCHEMA = _Place(in_schema=True)
_IN_ARGUMENTS = _Place(in_arguments=True)
