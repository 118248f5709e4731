"""Listings: which methods list what, tolerant reading of items, and all pages within caps."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TypedDict

from django.conf import settings
from mcp_types.jsonrpc import INVALID_PARAMS

from connectors.upstream import errors
from connectors.upstream.contract import Session, UpstreamRequest
from connectors.upstream.jsonrpc import MAX_DEPTH, is_deeper
from connectors.upstream.param_headers import annotation_fault
from mcphub.core.clock import Deadline
from mcphub.core.errors import ProtocolError, UpstreamError
from mcphub.core.types import JSONObject, JSONValue

ITEM_KEY = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
"""List method → the member of its result that holds the items."""
NAME_KEY = {
    "tools/list": "name",
    "resources/list": "uri",
    "resources/templates/list": "uriTemplate",
    "prompts/list": "name",
}
"""List method → the member that identifies an item."""

LIST_BYTES = 8 << 20
DESCRIPTION_BYTES = 16 << 10
SCHEMA_BYTES = 256 << 10
NAME_MAX = 1024


class Problem(TypedDict):
    """Why an item cannot be used, or is worth a flag; `name` is "" when it has none."""

    index: int
    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """How much of a listing is read; the defaults are the operator's settings."""

    pages: int = field(default_factory=lambda: settings.MAX_PAGES)
    items: int = field(default_factory=lambda: settings.MAX_TOOLS)
    size: int = LIST_BYTES


@dataclass(slots=True, kw_only=True)
class Listing:
    """All items of one listing; `is_cut` when a cap ended it."""

    items: list[JSONObject] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    is_cut: bool = False


def split_listing(method: str, result: JSONObject) -> tuple[list[JSONObject], list[Problem]]:
    """Return the usable items, unchanged, and a problem for each that is not or is flagged.

    Raises UpstreamError (`protocol_error`) when the result holds no list at all. Reasons of
    flagged items, which stay usable, begin with "flag:".
    """
    found = result.get(ITEM_KEY[method])
    if not isinstance(found, list):
        raise _no_list()
    items: list[JSONObject] = []
    problems: list[Problem] = []
    seen: set[str] = set()
    for index, item in enumerate(found):
        name = _name_of(method, item)
        reason = _fault_of(method, item, name) or ("duplicate_name" if name in seen else "")
        if reason:
            problems.append(Problem(index=index, name=name[:NAME_MAX], reason=reason))
            continue
        seen.add(name)
        if isinstance(item, dict):
            items.append(item)
            if flag := _flag_of(item):
                problems.append(Problem(index=index, name=name, reason=flag))
    return items, problems


def _no_list() -> UpstreamError:
    return errors.protocol_fault("The listing has no list of items.")


def _name_of(method: str, item: JSONValue) -> str:
    value = item.get(NAME_KEY[method]) if isinstance(item, dict) else None
    return value if isinstance(value, str) else ""


def _fault_of(method: str, item: JSONValue, name: str) -> str:
    if not isinstance(item, dict):
        return "not_an_object"
    if not name:
        return f"{NAME_KEY[method]}_missing"
    if len(name) > NAME_MAX:
        return f"{NAME_KEY[method]}_too_long"
    if is_deeper(item, MAX_DEPTH):
        return "nested_too_deep"
    return _schema_fault(item.get("inputSchema")) if method == "tools/list" else ""


def _schema_fault(schema: JSONValue) -> str:
    """Judge an inputSchema: MCP wants an object schema (server/tools#tool), and so do callers."""
    if schema is None:
        return "input_schema_missing"
    if not isinstance(schema, dict):
        return "input_schema_not_an_object"
    if schema.get("type") != "object":
        return "input_schema_type_not_object"
    if _size(schema) > SCHEMA_BYTES:
        return "input_schema_too_large"
    return "header_annotation_invalid" if annotation_fault(schema) else ""


def _flag_of(item: JSONObject) -> str:
    description = item.get("description")
    if isinstance(description, str) and len(description.encode("utf-8", "replace")) > (
        DESCRIPTION_BYTES
    ):
        return "flag:description_too_long"
    return ""


def _size(value: JSONValue) -> int:
    return len(json.dumps(value))


async def list_all(
    session: Session, method: str, deadline: Deadline, caps: Caps | None = None
) -> Listing:
    """Read all pages; a cursor that the server forgot restarts the listing once.

    Raises as `Session.request`, UpstreamError (`protocol_error`) for a first page without items.
    """
    caps = caps or Caps()
    try:
        return await _read_pages(session, method, deadline, caps)
    except _CursorExpiredError:
        try:
            return await _read_pages(session, method, deadline, caps)
        except _CursorExpiredError as exc:
            raise exc.error from exc


class _CursorExpiredError(Exception):
    def __init__(self, error: ProtocolError) -> None:
        super().__init__("cursor expired")
        self.error = error


async def _read_pages(session: Session, method: str, deadline: Deadline, caps: Caps) -> Listing:
    listing = Listing()
    raw: list[JSONValue] = []
    asked: set[str] = set()
    size = 0
    params: JSONObject = {}
    for _ in range(caps.pages):
        page = await _ask(session, method, params, deadline)
        found = page.get(ITEM_KEY[method])
        if not isinstance(found, list) and not asked:
            raise _no_list()
        raw.extend(found if isinstance(found, list) else [])
        size += _size(found)
        cursor = page.get("nextCursor")
        is_last = not isinstance(cursor, str) or cursor in asked
        if len(raw) > caps.items or size > caps.size:
            listing.is_cut = True
            break
        if not isinstance(cursor, str) or is_last:
            break
        asked.add(cursor)
        params = {"cursor": cursor}
    else:
        listing.is_cut = True
    listing.items, listing.problems = split_listing(method, {ITEM_KEY[method]: raw[: caps.items]})
    return listing


async def _ask(session: Session, method: str, params: JSONObject, deadline: Deadline) -> JSONObject:
    try:
        return await session.request(
            UpstreamRequest(method=method, params=params, deadline=deadline)
        )
    except ProtocolError as exc:
        if "cursor" in params and exc.rpc.code == INVALID_PARAMS:
            raise _CursorExpiredError(exc) from exc
        raise


def advertises(capabilities: JSONObject, method: str) -> bool:
    """Whether the server's capabilities include what `method` lists."""
    return method.partition("/")[0] in capabilities
