"""The Celery application: lifecycle tasks and sweeps; calls travel by lanes instead."""

from __future__ import annotations

import os
import time
from typing import Any

from celery import Celery
from celery.beat import Scheduler

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcphub.settings")

from mcphub import env

with env.refusing_bad_settings():
    from connectors import queue

    app = Celery("mcphub")
    app.config_from_object("django.conf:settings", namespace="CELERY", force=True)
app.autodiscover_tasks()
app.steps["worker"].add("connectors.worker:HostStep")

SWEEP_SECONDS = 5.0
BEAT_SECONDS = 5.0
PRUNE_SECONDS = 3600.0
TRACE_PRUNE = "tracing.prune"
TRACE_PRUNE_SECONDS = 600.0
OAUTH_REFRESH_DUE = "oauth.refresh_due"
OAUTH_REFRESH_SECONDS = 30.0
OAUTH_PRUNE = "oauth.prune"
WEBHOOKS = "tenants.deliver_webhooks"
WEBHOOKS_SECONDS = 5.0
WEBHOOKS_PRUNE = "tenants.prune_webhooks"
CLIENT_LOGIN_SWEEP = "gateway.login.sweep"
CLIENT_LOGIN_SWEEP_SECONDS = 600.0


class BeatingScheduler(Scheduler):
    """Says that it lives, so that `/readyz` and `mcphub doctor` can tell that nobody sweeps."""

    _said_at = float("-inf")

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Do what is due; returns how long to wait, so that nothing is late."""
        if time.monotonic() - self._said_at >= BEAT_SECONDS:
            queue.announce_beat()
            self._said_at = time.monotonic()
        wait: float = super().tick(*args, **kwargs)
        return min(wait, BEAT_SECONDS)


def _every(task: str, seconds: float) -> dict[str, object]:
    """Return a beat entry; what no worker takes in time is dropped, the next one is due then."""
    return {"task": task, "schedule": seconds, "options": {"expires": seconds * 2}}


app.conf.beat_schedule = {
    "sweep calls": _every(queue.SWEEP_CALLS, SWEEP_SECONDS),
    "sweep leases": _every(queue.SWEEP_LEASES, SWEEP_SECONDS),
    "prune": _every(queue.PRUNE, PRUNE_SECONDS),
    "prune traces": _every(TRACE_PRUNE, TRACE_PRUNE_SECONDS),
    "refresh tokens": _every(OAUTH_REFRESH_DUE, OAUTH_REFRESH_SECONDS),
    "deliver webhooks": _every(WEBHOOKS, WEBHOOKS_SECONDS),
    "prune webhooks": _every(WEBHOOKS_PRUNE, PRUNE_SECONDS),
    "prune sign-ins": _every(OAUTH_PRUNE, PRUNE_SECONDS),
    "sweep client logins": _every(CLIENT_LOGIN_SWEEP, CLIENT_LOGIN_SWEEP_SECONDS),
}
