"""Celery tasks of this package: delivery of webhooks, and the end of their log."""

from __future__ import annotations

from asgiref.sync import async_to_sync
from celery import shared_task

from mcphub.core.once import once_per
from tenants.webhooks import delivery, outbox

DELIVER = "tenants.deliver_webhooks"
PRUNE = "tenants.prune_webhooks"


@shared_task(name=DELIVER)
def deliver_webhooks() -> None:
    if once_per("webhooks", seconds=1.0):
        async_to_sync(delivery.deliver_due)()


@shared_task(name=PRUNE)
def prune_webhooks() -> None:
    if once_per("webhooks-prune", seconds=600.0):
        outbox.prune()
