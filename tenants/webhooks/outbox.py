"""Messages that wait for a tenant's webhook: bounded, the newest for each subject, then the log."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Min

from mcphub.core.clock import now
from mcphub.core.crypto import Secret
from mcphub.core.sealing import unseal
from mcphub.core.types import JSONObject
from tenants.models import DeliveryStatus, Webhook, WebhookDelivery

PAUSES = (5.0, 30.0, 120.0, 600.0, 1800.0, 7200.0, 21600.0, 43200.0)
"""Seconds before each further attempt: nine in a bit less than a day."""
MOST_TENANTS = 20
MOST_PER_TENANT = 5
"""So many messages are in flight at once."""
LEASE = timedelta(seconds=60)
KEPT = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """`change` says what is new in `data`; with `subject` it tells what becomes needless."""

    type: str
    data: JSONObject
    subject: UUID | None = None
    change: str = ""

    @property
    def digest(self) -> str:
        text = json.dumps([self.type, self.data], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A message that this process is to deliver now."""

    id: UUID
    webhook: Webhook
    body: bytes
    attempts: int


def tell(tenant_id: UUID, message: Callable[[], Message]) -> None:
    """Queue a message if the tenant has a webhook; else one query."""
    webhook = _webhook_of(tenant_id)
    if webhook is not None:
        add(webhook, message())


def tell_news(tenant_id: UUID, message: Callable[[], Message]) -> None:
    """As `tell`, unless the last message about the subject said the same."""
    webhook = _webhook_of(tenant_id)
    if webhook is None:
        return
    made = message()
    rows = WebhookDelivery.unscoped.filter(tenant_id=tenant_id, subject=made.subject)
    if rows.order_by("-id").values_list("digest", flat=True).first() != made.digest:
        add(webhook, made)


def add(webhook: Webhook, message: Message) -> WebhookDelivery:
    """Queue a message in place of the one of the same subject and change that still waits."""
    moment = now()
    data = {"change": message.change, **message.data} if message.change else message.data
    body = {"type": message.type, "timestamp": moment.isoformat(), "data": data}
    row = WebhookDelivery(
        tenant_id=webhook.tenant_id,
        webhook=webhook,
        type=message.type,
        subject=message.subject,
        change=message.change,
        body=json.dumps(body, ensure_ascii=False, separators=(",", ":")),
        digest=message.digest,
        next_attempt_at=moment,
        created_at=moment,
    )
    waiting = WebhookDelivery.unscoped.filter(
        webhook=webhook,
        type=message.type,
        subject=message.subject,
        change=message.change,
        status=DeliveryStatus.PENDING,
    )
    with transaction.atomic():
        waiting.delete()
        row.save(force_insert=True)
    return row


def take_due() -> list[Due]:
    """Claim what is due for this process: a few of each tenant, whatever others have waiting."""
    moment = now()
    rows = WebhookDelivery.unscoped.select_related("webhook").filter(
        status=DeliveryStatus.PENDING, next_attempt_at__lte=moment, webhook__is_active=True
    )
    first = rows.values("tenant_id").annotate(first=Min("next_attempt_at")).order_by("first")
    taken: list[Due] = []
    for tenant_id in list(first.values_list("tenant_id", flat=True)[:MOST_TENANTS]):
        own = rows.filter(tenant_id=tenant_id).order_by("next_attempt_at")[:MOST_PER_TENANT]
        taken += [_due(row) for row in own if _claim(row, moment)]
    return taken


def secrets_of(webhook: Webhook) -> list[Secret]:
    """Return what to sign with now. Raises CredentialUnreadableError."""
    found = [unseal(webhook, "sealed_secret")]
    if webhook.former_secret_until is not None and webhook.former_secret_until > now():
        found.append(unseal(webhook, "sealed_former_secret"))
    return [secret for secret in found if secret is not None]


def settle(due: Due, outcome: str, *, is_delivered: bool, may_retry: bool = True) -> None:
    """Write down what came of an attempt; a message that was replaced meanwhile is left alone."""
    fields: dict[str, object] = {"outcome": outcome[:40]}
    attempts = due.attempts + 1
    if is_delivered:
        fields |= {"status": DeliveryStatus.DELIVERED, "ended_at": now(), "next_attempt_at": None}
    elif not may_retry or attempts > len(PAUSES):
        fields |= {"status": DeliveryStatus.FAILED, "ended_at": now(), "next_attempt_at": None}
    else:
        fields |= {"next_attempt_at": now() + timedelta(seconds=pause_after(attempts))}
    WebhookDelivery.unscoped.filter(pk=due.id, status=DeliveryStatus.PENDING).update(**fields)


def switch_off(webhook_id: UUID) -> None:
    """Send nothing more: the receiver answered 410, which says that it is gone."""
    Webhook.unscoped.filter(pk=webhook_id).update(is_active=False)


def prune() -> int:
    """Remove messages that are a week old, whatever became of them."""
    return WebhookDelivery.unscoped.filter(created_at__lt=now() - KEPT).delete()[0]


def pause_after(attempts: int) -> float:
    """Return the pause before the next attempt, spread a little."""
    return PAUSES[attempts - 1] * random.uniform(0.8, 1.2)  # noqa: S311  (spreads load)


def _webhook_of(tenant_id: UUID) -> Webhook | None:
    return Webhook.unscoped.filter(tenant_id=tenant_id, is_active=True).first()


def _claim(row: WebhookDelivery, moment: datetime) -> bool:
    """Take one message; of two processes one gets it, and a dead one's comes back."""
    same = WebhookDelivery.unscoped.filter(
        pk=row.pk, attempts=row.attempts, status=DeliveryStatus.PENDING
    )
    return bool(same.update(attempts=row.attempts + 1, next_attempt_at=moment + LEASE))


def _due(row: WebhookDelivery) -> Due:
    return Due(id=row.pk, webhook=row.webhook, body=row.body.encode(), attempts=row.attempts)
