"""Seals every stored secret anew under the primary key, row by row, while the hub runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.apps import apps
from django.db.models import BinaryField, Model

from connectors.models import ToolCall
from mcphub.core.crypto import CredentialUnreadableError, KeyRing
from mcphub.core.sealing import owner_of

PAGE = 500
ROUNDS = 5


OWNERS: dict[tuple[type[Model], str], str] = {
    (ToolCall, "sealed_params"): "tool_call:{pk}:params",
    (ToolCall, "sealed_outcome"): "tool_call:{pk}:outcome",
}
"""Associated data of columns that do not follow `mcphub.core.sealing.owner_of`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedColumn:
    """Where secrets are, and the associated data that binds each to its row."""

    model: type[Model]
    field: str

    def owner(self, pk: object) -> str:
        pattern = OWNERS.get((self.model, self.field))
        return pattern.format(pk=pk) if pattern else owner_of(self.model(pk=pk), self.field)


def sealed_columns() -> list[SealedColumn]:
    """Return every `sealed_*` column of every package."""
    return [
        SealedColumn(model=model, field=field.name)
        for model in apps.get_models()
        for field in model._meta.get_fields()  # noqa: SLF001  (Django's documented name)
        if isinstance(field, BinaryField) and field.name.startswith("sealed_")
    ]


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
    columns = sealed_columns()
    resealed = 0
    for _ in range(ROUNDS):
        done = sum(reseal_column(ring, column) for column in columns)
        resealed += done
        if not done:
            break
    left = [opens(ring, row) for column in columns for row in old(ring, column)]
    return Rotation(resealed=resealed, left=len(left), unreadable=left.count(False))


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


def old(ring: KeyRing, column: SealedColumn) -> Iterator[tuple[object, bytes, str]]:
    """Yield (id, sealed value, owner) of every row that is not under the primary key."""
    prefix = f"{ring.primary}:".encode()
    rows = column.model._base_manager.exclude(**{column.field: None}).order_by("pk")  # noqa: SLF001  (every tenant's rows)
    page = list(rows.values_list("pk", column.field)[:PAGE])
    while page:
        for pk, value in page:
            if not bytes(value).startswith(prefix):
                yield pk, bytes(value), column.owner(pk)
        page = list(rows.filter(pk__gt=page[-1][0]).values_list("pk", column.field)[:PAGE])


def opens(ring: KeyRing, row: tuple[object, bytes, str]) -> bool:
    _, sealed, owner = row
    try:
        ring.unseal(sealed, owner=owner)
    except CredentialUnreadableError:
        return False
    return True


def samples(column: SealedColumn) -> Iterator[tuple[object, bytes, str]]:
    """Yield the oldest and the newest row of a column, as `old` does."""
    rows = column.model._base_manager.exclude(**{column.field: None})  # noqa: SLF001  (every tenant's rows)
    for order in ("pk", "-pk"):
        for pk, value in rows.order_by(order).values_list("pk", column.field)[:1]:
            yield pk, bytes(value), column.owner(pk)
