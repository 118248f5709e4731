"""JSON bodies: bounded, strict, and never deeper than the parser can go."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import IO, Any, NoReturn

from django.conf import settings
from rest_framework.parsers import JSONParser

from mcphub.api.errors import BodyTooLargeError, MalformedRequestError
from mcphub.core.types import JSONObject, JSONValue

ENVELOPE_BYTES = 64 << 10
"""What a request body may hold beside the arguments of a call."""


def body_limit() -> int:
    """Return the most bytes that the body of any request to the API may have."""
    return int(settings.MAX_ARGUMENT_BYTES) + ENVELOPE_BYTES


SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def read_json(body: bytes) -> JSONValue:
    """Return the value.

    Raises MalformedRequestError: no JSON (RFC 8259), not UTF-8, too deep, a member given twice, a
    number out of range, or half of a surrogate pair, which is no text to store or send on.
    """
    try:
        value: JSONValue = json.loads(
            body.decode("utf-8"),
            parse_constant=_refuse_constant,
            parse_float=_finite,
            object_pairs_hook=_object_of,
        )
    except (ValueError, RecursionError) as exc:
        raise MalformedRequestError("The body is not JSON.") from exc
    if SURROGATE.search(body):
        _check_unicode(value)
    return value


class BoundedJSONParser(JSONParser):
    """DRF's parser would read a body of any size."""

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        limit = body_limit()
        body = stream.read(limit + 1)
        if len(body) > limit:
            raise BodyTooLargeError(f"The body may have {limit} bytes.")
        return read_json(body)


def _object_of(pairs: list[tuple[str, JSONValue]]) -> JSONObject:
    """Readers differ in which of two equal names counts (RFC 8259 §4): neither does here."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise MalformedRequestError("An object of the body has two members of one name.")
    return found


def _check_unicode(value: JSONValue) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (UnicodeEncodeError, RecursionError) as exc:
        raise MalformedRequestError("A text of the body is not Unicode.") from exc


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    """Return the number; one that overflows would become Infinity, which no JSON can pass on."""
    number = float(text)
    if math.isinf(number):
        raise MalformedRequestError("A number of the body is out of range.")
    return number
