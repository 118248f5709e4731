"""The era envelope of a result: what 2026-07-28 adds to it and the handshake era does not know."""

from __future__ import annotations

from mcp_types.methods import CACHEABLE_METHODS

from connectors.server_spec import Era
from mcphub.core.types import JSONObject

COMPLETE = "complete"
PRIVATE = "private"
_ENVELOPE = ("resultType", "ttlMs", "cacheScope")


def to_client(method: str, result: JSONObject, *, upstream: Era, client: Era) -> JSONObject:
    """Return a final result of a server in the envelope of the client's era.

    A modern result always says its type, and how long a cacheable one may be kept: what the server
    said, else not at all; the scope is always private, since each principal sees its own servers.
    For an older client the envelope goes; between two of the handshake era nothing changes.
    """
    if client is Era.MODERN:
        return modern(method, result)
    if upstream is Era.MODERN:
        return _without_envelope(method, result)
    return result


def modern(method: str, result: JSONObject) -> JSONObject:
    """Return a result in the envelope of 2026-07-28."""
    made: JSONObject = {**result, "resultType": result.get("resultType", COMPLETE)}
    if method in CACHEABLE_METHODS and made["resultType"] == COMPLETE:
        ttl = result.get("ttlMs")
        is_usable = isinstance(ttl, int) and not isinstance(ttl, bool) and ttl >= 0
        made["ttlMs"] = ttl if is_usable else 0
        made["cacheScope"] = PRIVATE
    return made


def _without_envelope(method: str, result: JSONObject) -> JSONObject:
    """Drop the envelope; `ttlMs` of anything else than a cacheable result is not part of it."""
    dropped = _ENVELOPE if method in CACHEABLE_METHODS else _ENVELOPE[:1]
    return {key: value for key, value in result.items() if key not in dropped}
