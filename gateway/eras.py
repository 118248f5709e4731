"""The envelope of results in each era (pure): what 2026-07-28 adds is not shown to others."""

from __future__ import annotations

from connectors.server_spec import Era
from mcphub.core.types import JSONObject

COMPLETE = "complete"
CACHEABLE = frozenset(
    {
        "server/discover",
        "tools/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "prompts/list",
    }
)
"""Results that say for how long they hold (2026-07-28, server/utilities/caching)."""
ENVELOPE = frozenset({"resultType", "ttlMs", "cacheScope"})


def result_for(era: Era, method: str, result: JSONObject) -> JSONObject:
    """Return a result as a client of `era` expects it; every other field is kept.

    What is served here is always one member's: shared caches must not keep it.
    """
    if era is Era.LEGACY:
        return {key: value for key, value in result.items() if key not in ENVELOPE}
    told = {"resultType": COMPLETE, **result}
    if method in CACHEABLE:
        told = {"ttlMs": 0, **told, "cacheScope": "private"}
    return told
