"""Celery tasks of connectors: lifecycle work and sweeps; names are in queue, work in services."""

from __future__ import annotations

import uuid

from celery import shared_task

from connectors import queue
from connectors.services import authorizations, here, reaper, recovery, retention
from mcphub.core.once import once_per
from oauth.names import LostReason


@shared_task(name=queue.CONNECT)
def connect(connection_id: str) -> None:
    here.open_connection(connection_id)


@shared_task(name=queue.DISCONNECT)
def disconnect(connection_id: str) -> None:
    here.close_connection(connection_id)


@shared_task(name=queue.REVOKE)
def revoke(connection_id: str, reason: str) -> None:
    authorizations.revoke(uuid.UUID(connection_id), LostReason(reason))


@shared_task(name=queue.RECOVER)
def recover(connection_id: str) -> None:
    here.open_connection(connection_id)


@shared_task(name=queue.REFRESH_CATALOG)
def refresh_catalog(connection_id: str) -> None:
    here.refresh_catalog(connection_id)


@shared_task(name=queue.SWEEP_CALLS)
def sweep_calls() -> None:
    if once_per("sweep-calls", seconds=2.0):
        reaper.sweep()


@shared_task(name=queue.SWEEP_LEASES)
def sweep_leases() -> None:
    if once_per("sweep-leases", seconds=2.0):
        recovery.sweep_leases()


@shared_task(name=queue.PRUNE)
def prune() -> None:
    if once_per("prune", seconds=600.0):
        retention.prune()
