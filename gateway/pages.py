"""Pages of lists (pure). A cursor belongs to the list as it was; when that changes, it expires."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from mcp_types.jsonrpc import INVALID_PARAMS

from gateway.wire import RpcFault
from mcphub.core.types import JSONObject, JSONValue

PAGE_ITEMS = 1000
"""Large on purpose: clients exist that read the first page only."""
CURSOR = re.compile(r"(\d{1,7})-([0-9a-f]{16})")


def page_of(key: str, items: Sequence[JSONObject], cursor: JSONValue) -> JSONObject:
    """Return one page of a list as a result. Raises RpcFault for a cursor that has expired."""
    start, fingerprint = 0, ""
    if cursor is not None:
        match = CURSOR.fullmatch(cursor) if isinstance(cursor, str) else None
        if match is None:
            raise _expired()
        start, fingerprint = int(match[1]), match[2]
    end = start + PAGE_ITEMS
    result: JSONObject = {key: list(items[start:end])}
    if fingerprint or end < len(items):
        current = _fingerprint(items)
        if fingerprint and fingerprint != current:
            raise _expired()
        if end < len(items):
            result["nextCursor"] = f"{end}-{current}"
    return result


def _fingerprint(items: Sequence[JSONObject]) -> str:
    names = (str(item.get("name")) + "\0" + str(item.get("uri", "")) for item in items)
    return hashlib.sha256("\1".join(names).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _expired() -> RpcFault:
    return RpcFault(INVALID_PARAMS, "The cursor has expired; list again from the beginning.")
