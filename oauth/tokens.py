"""Reads answers of token endpoints: tolerant in form, strict in what may become a header; pure."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from mcphub.core.crypto import Secret
from mcphub.core.types import JSONObject, JSONValue
from oauth.challenge import split_scopes

VISIBLE = re.compile(r"[\x21-\x7e]{1,16384}")
ERROR_CODE = re.compile(r"[a-z][a-z0-9_]{0,38}")
SHORTEST_LIFE = 1.0
LONGEST_LIFE = 10 * 365 * 86400.0
DEAD_GRANT = frozenset({"invalid_grant", "bad_refresh_token", "invalid_refresh_token"})
"""RFC 6749 §5.2, and how two large providers spell it."""
IDENTITY_CLAIMS = ("email", "preferred_username", "name", "login", "sub")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAnswer:
    """A usable answer; `scopes` None: as asked for."""

    access_token: Secret
    refresh_token: Secret | None = None
    expires_in: float | None = None
    refresh_expires_in: float | None = None
    scopes: tuple[str, ...] | None = None
    id_token: Secret | None = None
    oddities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRefusal:
    """No token: `error` is a plain RFC 6749 code, or "" when the server gave none."""

    error: str
    http_status: int
    retry_after: float | None = None

    @property
    def ends_grant(self) -> bool:
        return self.error in DEAD_GRANT

    @property
    def forgot_client(self) -> bool:
        return self.error == "invalid_client"

    @property
    def is_passing(self) -> bool:
        """Whether the answer is about the server's own state and not about what was sent."""
        return self.http_status >= 500 or self.http_status in {408, 425, 429}


def parse(status: int, body: bytes) -> TokenAnswer | TokenRefusal:
    """Read one answer; what cannot be used is a refusal."""
    value = json_object(body)
    error = value.get("error") if value else None
    if isinstance(error, dict):  # some servers wrap it: {"error": {"code": …}}
        error = error.get("code")
    if status not in {200, 201} or error or not value:
        return TokenRefusal(error=error_code(error), http_status=status)
    access = secret(value.get("access_token"))
    kind = value.get("token_type", "bearer")
    if access is None or not isinstance(kind, str) or kind.lower() != "bearer":
        return TokenRefusal(error="unusable_token", http_status=status)
    scopes, oddities = _scopes(value.get("scope"))
    return TokenAnswer(
        access_token=access,
        refresh_token=secret(value.get("refresh_token")),
        expires_in=lifetime(value.get("expires_in")),
        refresh_expires_in=lifetime(
            value.get("refresh_token_expires_in", value.get("refresh_expires_in"))
        ),
        scopes=scopes,
        id_token=secret(value.get("id_token")),
        oddities=oddities,
    )


def json_object(body: bytes) -> JSONObject:
    """Return the JSON object of a body; {} for everything else."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def secret(value: JSONValue) -> Secret | None:
    """Return a value that can be sent in a header, else None."""
    return Secret(value) if isinstance(value, str) and VISIBLE.fullmatch(value) else None


def lifetime(value: JSONValue) -> float | None:
    """Return seconds, clamped to a sane range; None when the value tells nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(seconds) else min(max(seconds, SHORTEST_LIFE), LONGEST_LIFE)


def error_code(value: JSONValue) -> str:
    """Return an error code that is safe to keep and show; "" for anything else."""
    return value if isinstance(value, str) and ERROR_CODE.fullmatch(value) else ""


def identity(claims: JSONObject) -> str:
    """Return what to show as "signed in as"; "" when the claims name nobody."""
    for name in IDENTITY_CLAIMS:
        value = claims.get(name)
        if isinstance(value, str) and value.isprintable() and value.strip():
            return value.strip()[:200]
    return ""


def identity_of(id_token: Secret, *, issuer: str, client_id: str) -> str:
    """Return whom an ID token names. It came straight from the token endpoint over TLS.

    So its signature need not be checked (OpenID Connect Core §3.1.3.7), and it is only shown.
    """
    parts = id_token.value.split(".")
    if len(parts) != 3:
        return ""
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
    except (binascii.Error, ValueError):
        return ""
    claims = json_object(payload)
    audience = claims.get("aud")
    is_ours = audience == client_id or (isinstance(audience, list) and client_id in audience)
    return identity(claims) if is_ours and claims.get("iss") == issuer else ""


def _scopes(value: JSONValue) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    if isinstance(value, list):
        return split_scopes(" ".join(_texts(value))), ("scope_is_array",)
    scopes = split_scopes(value) if isinstance(value, str) else ()
    return scopes or None, ()


def _texts(values: Iterable[JSONValue]) -> list[str]:
    return [value for value in values if isinstance(value, str)]
