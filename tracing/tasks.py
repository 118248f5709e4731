"""Celery tasks of the trace."""

from __future__ import annotations

from celery import shared_task

from mcphub.core.once import once_per
from tracing import retention

PRUNE = "tracing.prune"


@shared_task(name=PRUNE)
def prune() -> None:
    if once_per("prune-traces", seconds=60.0):
        retention.prune()
