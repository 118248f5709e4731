"""Cursor pages by id, newest first: `{"items": […], "nextCursor": "…" or null}`.

Ids are time-ordered (UUIDv7), so that the id is the position. The cursor is opaque and signed; a
changed one is refused instead of read.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from django.core.signing import BadSignature, Signer
from django.db.models import Model, QuerySet

from mcphub.core.errors import FieldProblem, InvalidInputError
from mcphub.core.types import JSONObject, JSONValue

DEFAULT_LIMIT = 50
MAX_LIMIT = 200

M = TypeVar("M", bound=Model)
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """Which page: `?limit=` (1 to 200, 50 when left out) and `?cursor=` of the page before."""

    limit: int = DEFAULT_LIMIT
    before: uuid.UUID | None = None

    @classmethod
    def read(cls, query: Mapping[str, str]) -> PageRequest:
        """Read query parameters. Raises InvalidInputError that names the wrong one."""
        return cls(limit=_limit(query.get("limit")), before=_before(query.get("cursor")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    items: Sequence[T]
    next_cursor: str | None

    def as_json(self, item: Callable[[T], JSONValue]) -> JSONObject:
        return {"items": [item(one) for one in self.items], "nextCursor": self.next_cursor}


def page_of(rows: QuerySet[M], wanted: PageRequest) -> Page[M]:
    """Return one page of rows with UUIDv7 primary keys; one query."""
    if wanted.before is not None:
        rows = rows.filter(pk__lt=wanted.before)
    found = list(rows.order_by("-pk")[: wanted.limit + 1])
    items = found[: wanted.limit]
    has_more = len(found) > wanted.limit
    return Page(items=items, next_cursor=cursor_after(items[-1].pk) if has_more else None)


def cursor_after(row_id: uuid.UUID) -> str:
    return _signer().sign(row_id.hex)


def _signer() -> Signer:
    return Signer(salt="mcphub.cursor", sep=".")


def _limit(text: str | None) -> int:
    if text is None:
        return DEFAULT_LIMIT
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= MAX_LIMIT:
        raise _refused("limit", f"A whole number from 1 to {MAX_LIMIT}.")
    return int(text)


def _before(cursor: str | None) -> uuid.UUID | None:
    if cursor is None:
        return None
    try:
        return uuid.UUID(_signer().unsign(cursor))
    except (BadSignature, ValueError) as exc:
        raise _refused("cursor", "Not a cursor that this service gave out.") from exc


def _refused(name: str, message: str) -> InvalidInputError:
    return InvalidInputError(problems=[FieldProblem(path=f"/{name}", message=message)])
