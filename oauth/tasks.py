"""Celery tasks of this package: the sweep that refreshes ahead, and the removal of old rows."""

from __future__ import annotations

from asgiref.sync import async_to_sync
from celery import shared_task

from mcphub.core.once import once_per
from oauth import sweeping

REFRESH_DUE = "oauth.refresh_due"
PRUNE = "oauth.prune"
REFRESH_AT_MOST_EVERY = 15.0


@shared_task(name=REFRESH_DUE)
def refresh_due() -> None:
    if once_per("oauth-refresh-due", seconds=REFRESH_AT_MOST_EVERY):
        async_to_sync(sweeping.sweep)()


@shared_task(name=PRUNE)
def prune() -> None:
    if once_per("oauth-prune", seconds=600.0):
        sweeping.prune()
