"""Lifecycle work, sent to Celery by name: the task functions are in connectors/tasks.py."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

from celery import current_app
from kombu.exceptions import OperationalError

from mcphub.core.errors import UnavailableError

CONNECT = "connectors.connect"
DISCONNECT = "connectors.disconnect"
REVOKE = "connectors.revoke"
RECOVER = "connectors.recover"
REFRESH_CATALOG = "connectors.refresh_catalog"
SWEEP_CALLS = "connectors.sweep_calls"
SWEEP_LEASES = "connectors.sweep_leases"
PRUNE = "connectors.prune"
TASK_NAMES = (
    CONNECT,
    DISCONNECT,
    REVOKE,
    RECOVER,
    REFRESH_CATALOG,
    SWEEP_CALLS,
    SWEEP_LEASES,
    PRUNE,
)

SEND_SECONDS = 1.0


def send_connect(connection_id: uuid.UUID) -> None:
    """Ask any worker to open the session of a connection. Raises UnavailableError within 1 s."""
    _send(CONNECT, str(connection_id))


def send_disconnect(connection_id: uuid.UUID) -> None:
    """Ask for a connection's session to be closed. Raises UnavailableError within 1 s."""
    _send(DISCONNECT, str(connection_id))


def send_revoke(connection_id: uuid.UUID, reason: str) -> None:
    """Have the authorization of a connection revoked. Raises UnavailableError within 1 s."""
    _send(REVOKE, str(connection_id), reason)


def send_recover(connection_id: uuid.UUID) -> None:
    """Ask any worker to take over a connection that nobody alive holds. Raises UnavailableError."""
    _send(RECOVER, str(connection_id))


def send_refresh_catalog(connection_id: uuid.UUID) -> None:
    """Ask for a connection's catalog to be read again. Raises UnavailableError."""
    _send(REFRESH_CATALOG, str(connection_id))


def send_sweep_calls() -> None:
    """Run the reaper of calls once. Raises UnavailableError."""
    _send(SWEEP_CALLS)


def send_sweep_leases() -> None:
    """Look for connections whose holder is dead. Raises UnavailableError."""
    _send(SWEEP_LEASES)


def send_prune() -> None:
    """Remove rows past their retention. Raises UnavailableError."""
    _send(PRUNE)


@lru_cache(maxsize=1)
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=4, thread_name_prefix="mcphub-celery-send")


def _send(name: str, *ids: str) -> None:
    """Send in a thread of its own: a broker that hangs must not hang the request."""
    future = _threads().submit(_send_now, name, ids)
    try:
        future.result(SEND_SECONDS)
    except (OperationalError, OSError, TimeoutError) as exc:
        future.cancel()
        raise UnavailableError("The broker is away.", retry_after=1.0) from exc


def _send_now(name: str, ids: tuple[str, ...]) -> Any:
    return current_app.send_task(name, args=ids, retry=False, ignore_result=True)
