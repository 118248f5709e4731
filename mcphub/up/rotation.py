"""Seals every stored secret anew under the primary key, row by row, while the hub runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Model

from connectors.models import Connection, Connector, ToolCall
from mcphub.core.crypto import CredentialUnreadableError, KeyRing

PAGE = 500
ROUNDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedColumn:
    """Where secrets are, and the associated data that binds each to its row."""

    model: type[Model]
    field: str
    owner: Callable[[UUID], str]


COLUMNS = (
    SealedColumn(
        model=Connector,
        field="sealed_secrets",
        owner=lambda pk: f"connectors_connector:{pk}:sealed_secrets",
    ),
    SealedColumn(
        model=Connection,
        field="sealed_credentials",
        owner=lambda pk: f"connectors_connection:{pk}:sealed_credentials",
    ),
    SealedColumn(model=ToolCall, field="sealed_params", owner=lambda pk: f"tool_call:{pk}:params"),
    SealedColumn(
        model=ToolCall, field="sealed_outcome", owner=lambda pk: f"tool_call:{pk}:outcome"
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """What a run did; `left` counts rows that still use an old key, `unreadable` is part of it."""

    resealed: int
    left: int
    unreadable: int

    @property
    def is_complete(self) -> bool:
        return self.left == 0


def rotate(ring: KeyRing) -> Rotation:
    """Reseal what is under an old key; can be stopped and run again at any time.

    Rows that the running hub writes meanwhile are seen by a further round.
    """
    resealed = 0
    for _ in range(ROUNDS):
        done = sum(reseal_column(ring, column) for column in COLUMNS)
        resealed += done
        if not done:
            break
    unreadable = sum(1 for column in COLUMNS for row in old(ring, column) if not opens(ring, *row))
    left = sum(1 for column in COLUMNS for _ in old(ring, column))
    return Rotation(resealed=resealed, left=left, unreadable=unreadable)


def reseal_column(ring: KeyRing, column: SealedColumn) -> int:
    """Return how many rows moved; a row that changed meanwhile or cannot be opened stays."""
    moved = 0
    for pk, sealed, owner in old(ring, column):
        try:
            renewed = ring.reseal(sealed, owner=owner)
        except CredentialUnreadableError:
            continue
        unchanged = column.model._base_manager.filter(pk=pk, **{column.field: sealed})  # noqa: SLF001  (every tenant's rows)
        moved += unchanged.update(**{column.field: renewed})
    return moved


def old(ring: KeyRing, column: SealedColumn) -> Iterator[tuple[UUID, bytes, str]]:
    """Yield (id, sealed value, owner) of every row that is not under the primary key."""
    prefix = f"{ring.primary}:".encode()
    rows = column.model._base_manager.exclude(**{column.field: None}).order_by("pk")  # noqa: SLF001  (every tenant's rows)
    page = list(rows.values_list("pk", column.field)[:PAGE])
    while page:
        for pk, value in page:
            if not bytes(value).startswith(prefix):
                yield pk, bytes(value), column.owner(pk)
        page = list(rows.filter(pk__gt=page[-1][0]).values_list("pk", column.field)[:PAGE])


def opens(ring: KeyRing, _pk: UUID, sealed: bytes, owner: str) -> bool:
    try:
        ring.unseal(sealed, owner=owner)
    except CredentialUnreadableError:
        return False
    return True
