"""Announces what is saved outside the services (admin site, shell), and the end of a login."""

from __future__ import annotations

import hashlib
from typing import Any

from django.contrib.auth.signals import user_logged_out
from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver
from django.http import HttpRequest

from tenants.invalidation import Change, announce
from tenants.models import ApiKey, ConnectSession, Membership, Tenant, User


@receiver(post_save, sender=ApiKey)
@receiver(post_save, sender=ConnectSession)
@receiver(post_save, sender=Membership)
def announce_row(*, instance: Any, created: bool, **_: Any) -> None:
    """Announce a change; a new row was never looked up."""
    if not created:
        announce(Change(tenant_id=instance.tenant_id))


@receiver(post_delete, sender=ApiKey)
@receiver(post_delete, sender=ConnectSession)
@receiver(post_delete, sender=Membership)
def announce_end_of_row(instance: Any, **_: Any) -> None:
    announce(Change(tenant_id=instance.tenant_id))


@receiver(post_save, sender=Tenant)
def announce_tenant(*, instance: Tenant, created: bool, **_: Any) -> None:
    if not created:
        announce(Change(tenant_id=instance.id))


@receiver(post_save, sender=User)
def announce_user(
    *,
    instance: User,
    created: bool,
    update_fields: frozenset[str] | None,
    **_: Any,
) -> None:
    """Announce to all, as a user may be in many tenants; a mere login changes nothing here."""
    if not created and update_fields != frozenset({"last_login"}):
        announce(Change())


@receiver(post_delete, sender=Tenant)
@receiver(post_delete, sender=User)
def announce_end(**_: Any) -> None:
    announce(Change())


@receiver(user_logged_out)
def announce_logout(request: HttpRequest | None, **_: Any) -> None:
    key = request.session.session_key if request is not None else None
    if key:
        digest = hashlib.sha256(key.encode()).hexdigest()[:16]
        announce(Change(credential=f"session:{digest}"))
