"""The Celery task of this package: the removal of what is past its time."""

from __future__ import annotations

from celery import shared_task

from gateway.login import logins
from mcphub.core.once import once_per

SWEEP = "gateway.login.sweep"


@shared_task(name=SWEEP)
def sweep() -> None:
    if once_per("client-login-sweep", seconds=60.0):
        logins.sweep()
