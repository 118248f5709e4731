"""Progress of calls: what the ledger keeps of a progress notification (pure)."""

from __future__ import annotations

from mcphub.core.types import JSONObject

TEXT_LENGTH = 2000


def kept(seen: JSONObject) -> JSONObject:
    """Return the params of `notifications/progress` as the ledger keeps them."""
    message = seen.get("message")
    return {
        "progress": _number(seen.get("progress")),
        "total": _number(seen.get("total")),
        "message": message[:TEXT_LENGTH] if isinstance(message, str) else None,
    }


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
