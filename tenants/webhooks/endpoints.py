"""A tenant's webhook: set, switched off, its secret shown once and changed without a gap."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from django.db import transaction
from django.db.models import QuerySet

from mcphub.core.clock import now
from mcphub.core.crypto import Secret
from mcphub.core.egress import policy_from_settings
from mcphub.core.errors import NotFoundError
from mcphub.core.sealing import seal, unseal
from tenants.models import Webhook, WebhookDelivery
from tenants.principal import Principal, Scope
from tenants.webhooks import outbox, signing

OVERLAP = timedelta(hours=24)
"""So long messages are signed with the former secret too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """A webhook whose secret was just made; it is shown this once."""

    webhook: Webhook
    secret: Secret = field(repr=False)


def webhook_for(principal: Principal) -> Webhook:
    """Return the tenant's webhook. Raises NotPermittedError, NotFoundError."""
    principal.require(Scope.MEMBERS_WRITE)
    row = Webhook.objects.of(principal).first()
    if row is None:
        raise NotFoundError
    return row


def deliveries_for(principal: Principal) -> QuerySet[WebhookDelivery]:
    principal.require(Scope.MEMBERS_WRITE)
    return WebhookDelivery.objects.of(principal)


def put(principal: Principal, *, url: str, is_active: bool = True) -> Issued | Webhook:
    """Set the address; a new webhook comes with its secret.

    Raises NotPermittedError, BlockedUrlError for an address that the hub may not call.
    """
    principal.require(Scope.MEMBERS_WRITE)
    check(url)
    with transaction.atomic():
        row = Webhook.objects.of(principal).select_for_update().first()
        if row is None:
            return make(Webhook(tenant_id=principal.tenant_id, url=url, is_active=is_active))
        row.url, row.is_active = url, is_active
        row.save(update_fields=["url", "is_active"])
    return row


def make(row: Webhook) -> Issued:
    """Save a new webhook with a secret of its own."""
    secret = signing.new_secret()
    row.sealed_secret = seal(row, "sealed_secret", secret) or b""
    row.save(force_insert=True)
    return Issued(webhook=row, secret=secret)


def rotate(row: Webhook) -> Issued:
    """Change the secret; the former one signs along for a day, so that no message is refused."""
    secret = signing.new_secret()
    former = unseal(row, "sealed_secret")
    row.sealed_former_secret = seal(row, "sealed_former_secret", former)
    row.former_secret_until = now() + OVERLAP
    row.sealed_secret = seal(row, "sealed_secret", secret) or b""
    row.save(update_fields=["sealed_secret", "sealed_former_secret", "former_secret_until"])
    return Issued(webhook=row, secret=secret)


def remove(principal: Principal) -> None:
    """Delete the webhook with its log. Raises NotFoundError."""
    webhook_for(principal).delete()


def send_test(row: Webhook) -> WebhookDelivery:
    """Queue a message of the type `webhook.test`; its outcome is in the log."""
    return outbox.add(row, outbox.Message(type="webhook.test", data={}))


def check(url: str) -> None:
    """Raise BlockedUrlError unless the egress policy lets the hub call it."""
    policy_from_settings().check_url(url)
