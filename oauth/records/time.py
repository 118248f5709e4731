"""The database's clock: expiry and leases are judged by one clock, whatever a process's says."""

from __future__ import annotations

from datetime import UTC, datetime

from django.db import connection

QUERIES = {
    "postgresql": "SELECT clock_timestamp()",
    "sqlite": "SELECT strftime('%Y-%m-%dT%H:%M:%f', 'now')",
}


def database_now() -> datetime:
    """Return the database's current instant; one short query."""
    with connection.cursor() as cursor:
        cursor.execute(QUERIES[connection.vendor])
        value = cursor.fetchone()[0]
    instant = datetime.fromisoformat(value) if isinstance(value, str) else value
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)
