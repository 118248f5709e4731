"""Reads what a browser, or an app that owns its redirect URI, brought back; pure."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit
from uuid import UUID

from oauth.errors import StateInvalidError
from oauth.flows import Callback

NAMES = frozenset({"state", "code", "iss", "error"})
LONGEST = 4096
MOST_FIELDS = 50


def read(
    query: str, *, subject_key: UUID | None = None, redirect_uri: str | None = None
) -> Callback:
    """Return the parameters. Raises StateInvalidError: doubled, too long, or without a state."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError as exc:
        raise StateInvalidError from exc
    ours = [(name, value) for name, value in pairs if name in NAMES]
    found = dict(ours)
    is_long = any(len(value) > LONGEST for value in found.values())
    if len(found) != len(ours) or is_long or not found.get("state"):
        raise StateInvalidError
    return Callback(
        state=found["state"],
        code=found.get("code", ""),
        iss=found.get("iss"),
        error=found.get("error", ""),
        subject_key=subject_key,
        redirect_uri=redirect_uri,
    )


def read_url(url: str, *, subject_key: UUID) -> Callback:
    """Return the parameters of a whole callback address, as `complete-auth` gets it."""
    try:
        parts = urlsplit(url)
    except ValueError as exc:
        raise StateInvalidError from exc
    bare = parts._replace(query="", fragment="").geturl()
    return read(parts.query, subject_key=subject_key, redirect_uri=bare)
