"""The owner of a fresh hub, the owner's API key and one-time link, and the demo connector."""

from __future__ import annotations

from django.db import transaction

from connectors.models import Connector
from connectors.server_spec import Transport
from mcphub.core.errors import HubError
from tenants import api_keys, credentials
from tenants import services as tenants
from tenants.models import Membership, Tenant, User

TENANT = "default"
OWNER = "owner"
DEMO = "demo"
# The only tenant of a machine has nobody to be protected from.
LIMITS = {
    "max_connections": 5000,
    "max_custom_servers": 5000,
    "max_concurrent_calls": 2000,
    "calls_per_minute": 1_000_000,
}


@transaction.atomic
def ensure_owner() -> Membership:
    """Return the owner of the default tenant, made when there is none."""
    user = operator(OWNER)
    member = Membership.unscoped.filter(tenant__slug=TENANT, user=user).first()
    if member is not None:
        return member
    member = tenants.create_tenant(name="Default", slug=TENANT, owner=user)
    Tenant.objects.filter(pk=member.tenant_id).update(**LIMITS)
    return member


def operator(name: str) -> User:
    """Return the operator with this name; a new one can log in by link only."""
    user, is_new = User.objects.get_or_create(
        username=name, defaults={"is_staff": True, "is_superuser": True}
    )
    if is_new:
        user.set_unusable_password()
        user.save(update_fields=["password"])
    return user


def ensure_api_key(owner: Membership, kept: str) -> str:
    """Return `kept` while it is valid, else a new key with every scope."""
    if kept and is_valid(kept):
        return kept
    return api_keys.issue(owner, new=api_keys.NewKey(name="mcphub up")).secret


def is_valid(kept: str) -> bool:
    try:
        credentials.resolve(credentials.Shown(authorization=f"Bearer {kept}"))
    except HubError:
        return False
    return True


def ensure_demo_connector(url: str) -> None:
    """Declare the demo server of this machine; its port differs from start to start."""
    Connector.unscoped.update_or_create(
        tenant=None,
        slug=DEMO,
        defaults={"url": url},
        create_defaults={
            "url": url,
            "name": "Demo server",
            "description": "Runs beside the hub: tools, resources and prompts to try things with.",
            "transport": Transport.STREAMABLE_HTTP.value,
            "order": 10,
        },
    )
