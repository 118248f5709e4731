"""The keeper of this process, for lifecycle tasks; only a worker process has one."""

from __future__ import annotations

import uuid
from collections.abc import Coroutine
from typing import Any

from connectors.models import ListingKind
from connectors.services.keeping import Keeper


class _Place:
    keeper: Keeper | None = None


def settle(keeper: Keeper | None) -> None:
    """Name this process's keeper; None when it has ended."""
    _Place.keeper = keeper


def open_connection(connection_id: str) -> None:
    """Begin to open a connection's session in this process; its row tells the outcome."""
    keeper = _keeper()
    _begin(keeper, keeper.start_open(uuid.UUID(connection_id)))


def close_connection(connection_id: str) -> None:
    """Begin to close a connection's session if this process holds it."""
    keeper = _keeper()
    _begin(keeper, keeper.close(uuid.UUID(connection_id)))


def refresh_catalog(connection_id: str) -> None:
    """Begin to read the lists of a connection again, if this process holds its session."""
    keeper = _keeper()
    _begin(keeper, keeper.refresh(uuid.UUID(connection_id), list(ListingKind)))


def _keeper() -> Keeper:
    if _Place.keeper is None:
        raise RuntimeError("this process runs no session host; start Celery with --pool=threads")
    return _Place.keeper


def _begin(keeper: Keeper, work: Coroutine[Any, Any, None]) -> None:
    keeper.host.submit(_in_background(keeper, work))


async def _in_background(keeper: Keeper, work: Coroutine[Any, Any, None]) -> None:
    keeper.host.spawn(work, name="lifecycle task")
