"""Retention by age and by bytes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mcphub.core import clock
from tests.tracing.conftest import session_of
from tests.world import World
from tracing import retention, store, tasks
from tracing.models import Direction, TraceEvent
from tracing.rows import RowIds, Stamp, TraceRecord, row_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def stored(world: World) -> Any:
    """Return a function that stores rows of an age and a size."""
    session, ids = session_of(world.bob), RowIds()

    def store_rows(count: int, *, days: float = 0, size: int = 100) -> None:
        at = clock.now() - timedelta(days=days)
        record = TraceRecord(
            session=session, direction=Direction.SENT, message={"id": 1}, size=size, at=at
        )
        shift = int(timedelta(days=days).total_seconds() * 1000) << 80
        stamps = [
            Stamp(row_id=type(i)(int=i.int - shift), seq=1, secrets=session.secrets)
            for i in (ids.next() for _ in range(count))
        ]
        store.insert([row_of(record, stamp) for stamp in stamps])

    return store_rows


def test_rows_older_than_the_retention_go_in_steps(
    stored: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "FIRST_STEP", 10)
    stored(55, days=8)
    stored(5, days=6)
    assert retention.prune() == retention.Pruned(too_old=55, too_many=0)
    assert TraceEvent.unscoped.count() == 5
    assert retention.prune() == retention.Pruned(too_old=0, too_many=0)


def test_oldest_rows_go_when_the_trace_is_too_large(
    stored: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(30, days=2, size=1000)
    stored(10, days=1, size=1000)
    settings.TRACE_TOTAL_BYTES = 10 * (1000 + retention.ROW_BYTES)
    settings.TRACE_RETENTION = 1e9
    monkeypatch.setattr(retention, "FIRST_STEP", 1)
    assert retention.prune().too_many >= 30
    assert 0 < TraceEvent.unscoped.count() <= 10


def test_prune_stops_when_its_time_is_over(stored: Any) -> None:
    stored(5, days=8)
    assert retention.prune(seconds=0) == retention.Pruned(too_old=0, too_many=0)


def test_task_is_registered_and_prunes(stored: Any) -> None:
    stored(3, days=8)
    assert tasks.prune.name == tasks.PRUNE == "tracing.prune"
    tasks.prune()
    assert TraceEvent.unscoped.count() == 0
