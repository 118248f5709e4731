"""The envelope of results in each era (pure): what 2026-07-28 adds is not shown to others."""

from __future__ import annotations

from mcp_types.methods import CACHEABLE_METHODS

from connectors.server_spec import Era
from mcphub.core.types import JSONObject, JSONValue

COMPLETE = "complete"
RESULT_TYPE = "resultType"
CACHING = frozenset({"ttlMs", "cacheScope"})
"""For how long a cacheable result holds, and for whom (2026-07-28, server/utilities/caching)."""


def result_for(era: Era, method: str, result: JSONObject) -> JSONObject:
    """Return a result as a client of `era` expects it; every other field is kept.

    What is served here is always one member's: shared caches must not keep it. Members of that name
    in a result that is not cacheable are no part of the envelope, such as the `ttlMs` of a task.
    """
    caching = CACHING if method in CACHEABLE_METHODS else frozenset[str]()
    if era is Era.LEGACY:
        left_out = {RESULT_TYPE, *caching}
        return {key: value for key, value in result.items() if key not in left_out}
    told: JSONObject = {RESULT_TYPE: COMPLETE, **result}
    if caching and told[RESULT_TYPE] == COMPLETE:
        told |= {"ttlMs": _usable_ttl(result.get("ttlMs")), "cacheScope": "private"}
    return told


def _usable_ttl(value: JSONValue) -> int:
    """Return what a server said, 0 (stale at once) for what cannot be meant."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and isinstance(value, int) and value > 0 else 0
