"""The ledger's statements for SQLite (3.35 or newer) and PostgreSQL: many rows, one statement.

Values travel as a VALUES list that the UPDATE joins with, so that every row has its own fence and
its own content, and RETURNING tells which rows moved.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from django.db import connection

from connectors.models import CallStatus, ToolCall

TABLE = ToolCall._meta.db_table  # noqa: SLF001  (Django's documented name)

TYPES = {
    "id": "uuid",
    "tenant_id": "uuid",
    "member_id": "uuid",
    "connection_id": "uuid",
    "attempt": "integer",
    "timeout_ms": "integer",
    "sealed_params": "bytea",
    "sealed_outcome": "bytea",
    "is_tool_error": "boolean",
    "was_sent": "boolean",
    "progress": "jsonb",
    "stream": "jsonb",
    "deadline_at": "timestamptz",
    "created_at": "timestamptz",
    "at": "timestamptz",
}
"""PostgreSQL's type of a column of a VALUES list; `varchar` when it is not named here."""


def run(*clauses: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Execute one statement, given in clauses, and return its rows."""
    with connection.cursor() as cursor:
        cursor.execute(" ".join(clauses), parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def ids_of(*clauses: str, parameters: Sequence[Any]) -> set[uuid.UUID]:
    """As `run`, for a statement that returns ids alone."""
    return {as_uuid(row[0]) for row in run(*clauses, parameters=parameters)}


def insert(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> set[uuid.UUID]:
    """Insert `queued` rows and return the ids that are new; the others met a unique key."""
    names = (*columns, *_FIXED)
    one = ", ".join(("%s",) * len(columns) + tuple(_FIXED.values()))
    listed = f"({'), ('.join((one,) * len(rows))})"
    return ids_of(
        f"INSERT INTO {TABLE} ({', '.join(names)})",
        f"VALUES {listed} ON CONFLICT DO NOTHING RETURNING id",
        parameters=_flat(rows),
    )


_FIXED = {
    "status": f"'{CallStatus.QUEUED.value}'",
    "attempt": "0",
    "rounds": "0",
    "worker": "''",
    "is_tool_error": "false",
    "problem_code": "''",
    "problem_detail": "''",
    "is_cancel_requested": "false",
}


def update(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], *, assign: str, where: str
) -> set[uuid.UUID]:
    """Move rows by (id, worker, attempt), the first three columns, and return the ids that moved.

    `assign` and `where` name a column of the VALUES list `v_<column>`.
    """
    listed = _values(columns, rows)
    names = ", ".join(f"v_{column}" for column in columns)
    return ids_of(
        f"WITH v ({names}) AS (VALUES {listed})",
        f"UPDATE {TABLE}",
        f"SET {assign} FROM v",
        f"WHERE {TABLE}.id = v_id AND worker = v_worker AND attempt = v_attempt AND {where}",
        f"RETURNING {TABLE}.id",
        parameters=_flat(rows),
    )


def placeholders(count: int) -> str:
    return ", ".join(("%s",) * count)


def adapted(value: Any) -> Any:
    """Return a parameter as this database's driver takes it."""
    if isinstance(value, dict):
        return json.dumps(value)
    if connection.vendor == "sqlite":
        if isinstance(value, uuid.UUID):
            return value.hex
        if isinstance(value, datetime):
            return connection.ops.adapt_datetimefield_value(value)
    return value


def as_uuid(value: Any) -> uuid.UUID:
    return value if isinstance(value, uuid.UUID) else uuid.UUID(hex=value)


def as_instant(value: Any) -> datetime:
    at: datetime = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _values(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    if connection.vendor == "sqlite":
        one = f"({placeholders(len(columns))})"
    else:
        one = "(" + ", ".join(f"%s::{TYPES.get(column, 'varchar')}" for column in columns) + ")"
    return ", ".join((one,) * len(rows))


def _flat(rows: Iterable[Sequence[Any]]) -> list[Any]:
    return [adapted(value) for row in rows for value in row]
