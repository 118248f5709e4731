"""Which credentials may be sent to an upstream server as HTTP headers (pure)."""

from __future__ import annotations

import re
from dataclasses import replace

from connectors.server_spec import AuthType
from mcphub.core.errors import FieldProblem, InvalidInputError
from mcphub.core.types import JSONObject, JSONValue

NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
"""An HTTP field name (RFC 9110 §5.1)."""
VALUE = re.compile(r"[\x21-\x7e]+(?:[ \t]+[\x21-\x7e]+)*")
"""An HTTP field value without what only obsolete syntax allows (RFC 9110 §5.5)."""
LONGEST_VALUE = 8 << 10
MOST_HEADERS = 20

RESERVED = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "expect",
        "host",
        "keep-alive",
        "last-event-id",
        "origin",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that the client itself sets; those that begin with `mcp-` are its own too."""


def check(credentials: JSONObject, auth_type: AuthType, *, base: str = "/auth") -> None:
    """Raise InvalidInputError unless `credentials` fit the server's kind of authentication.

    `base` is where the credentials are in the request.
    """
    problems = [
        FieldProblem(path=f"/{key}", message="This is no credential.", code="unknown_field")
        for key in sorted(credentials.keys() - _known(auth_type))
    ]
    token = credentials.get("token")
    headers = credentials.get("headers")
    if token is not None:
        problems += _of_token(token, auth_type)
    if headers is not None:
        problems += _of_headers(headers, auth_type)
    if problems:
        placed = [replace(problem, path=base + problem.path) for problem in problems]
        raise InvalidInputError("The credentials cannot be used.", problems=placed)


def _known(auth_type: AuthType) -> frozenset[str]:
    if auth_type is AuthType.OAUTH:  # the client's, sent to its authorization server only
        return frozenset({"token", "headers", "clientSecret"})
    return frozenset({"token", "headers"})


def is_reserved(name: str) -> bool:
    """Whether the hub sets this header itself."""
    return name.lower() in RESERVED or name.lower().startswith("mcp-")


def _of_token(token: JSONValue, auth_type: AuthType) -> list[FieldProblem]:
    if auth_type is not AuthType.BEARER:
        return [FieldProblem(path="/token", message="This server takes no token.", code="unfit")]
    if not _is_value(token):
        return [FieldProblem(path="/token", message="This cannot be sent in a header.")]
    return []


def _of_headers(headers: JSONValue, auth_type: AuthType) -> list[FieldProblem]:
    if auth_type is not AuthType.HEADERS:
        return [
            FieldProblem(path="/headers", message="This server takes no headers.", code="unfit")
        ]
    if not isinstance(headers, dict) or len(headers) > MOST_HEADERS:
        return [
            FieldProblem(path="/headers", message=f"An object of at most {MOST_HEADERS} headers.")
        ]
    problems = []
    for name, value in headers.items():
        path = "/headers/" + name.replace("~", "~0").replace("/", "~1")
        if NAME.fullmatch(name) is None:
            problems.append(FieldProblem(path=path, message="This is no header name."))
        elif is_reserved(name):
            problems.append(
                FieldProblem(path=path, message="The hub sets this header.", code="reserved")
            )
        elif not _is_value(value):
            problems.append(FieldProblem(path=path, message="This is no header value."))
    return problems


def _is_value(value: JSONValue) -> bool:
    return (
        isinstance(value, str)
        and len(value) <= LONGEST_VALUE
        and VALUE.fullmatch(value) is not None
    )
