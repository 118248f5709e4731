"""Writes rows of the trace in one statement and one short transaction.

Not `bulk_create`: it compiles its statements while it holds the transaction, which on SQLite is
the one write lock that the ledger also needs.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any

from django.db import connection, transaction

from tracing.models import TraceEvent
from tracing.rows import TraceRow


def insert(rows: Sequence[TraceRow]) -> None:
    """Insert all rows or none; rows that are there already are left alone, so it may be repeated.

    Raises what the database raises.
    """
    adapted = [tuple(_adapt(value) for value in row) for row in rows]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.executemany(_statement(), adapted)


@cache
def _statement() -> str:
    model = TraceEvent._meta  # noqa: SLF001  (documented API)
    names = {field.attname: field.column for field in model.concrete_fields if field.column}
    quote = connection.ops.quote_name
    columns = ", ".join(quote(names[name]) for name in TraceRow._fields)
    places = ", ".join(["%s"] * len(TraceRow._fields))
    insert_into = f"INSERT INTO {quote(model.db_table)} ({columns})"
    return f"{insert_into} VALUES ({places}) ON CONFLICT DO NOTHING"


def _adapt(value: Any) -> Any:
    if isinstance(value, uuid.UUID):
        return value if connection.features.has_native_uuid_field else value.hex
    if isinstance(value, datetime):
        return connection.ops.adapt_datetimefield_value(value)
    return value
