"""The owner of a fresh hub, the owner's API key and one-time link, and the demo connector."""

from __future__ import annotations

import hashlib
import secrets

from django.conf import settings
from django.db import transaction

from connectors.models import Connector
from connectors.server_spec import Transport
from tenants.models import ApiKey, Membership, Role, Tenant, User
from tenants.principal import Scope

TENANT = "default"
OWNER = "owner"
DEMO = "demo"


@transaction.atomic
def ensure_owner() -> Membership:
    """Return the owner of the default tenant, made when there is none."""
    tenant, _ = Tenant.objects.get_or_create(slug=TENANT, defaults={"name": "Default"})
    user, is_new = User.objects.get_or_create(
        username=OWNER, defaults={"is_staff": True, "is_superuser": True}
    )
    if is_new:
        user.set_unusable_password()
        user.save(update_fields=["password"])
    member, _ = Membership.unscoped.get_or_create(
        tenant=tenant, user=user, defaults={"role": Role.OWNER, "display_name": "Owner"}
    )
    return member


def ensure_api_key(owner: Membership, kept: str) -> str:
    """Return `kept` while it is valid, else a new key with every scope."""
    if is_valid(kept):
        return kept
    key_id, secret = secrets.token_hex(6), secrets.token_hex(32)
    ApiKey.unscoped.create(
        tenant=owner.tenant,
        member=owner,
        name="mcphub up",
        key_id=key_id,
        secret_hash=hashlib.sha256(secret.encode()).hexdigest(),
        scopes=sorted(scope.value for scope in Scope),
    )
    return f"mhk_{key_id}_{secret}"


def is_valid(kept: str) -> bool:
    _, _, rest = kept.partition("_")
    key_id, _, secret = rest.partition("_")
    digest = hashlib.sha256(secret.encode()).hexdigest()
    return ApiKey.unscoped.filter(
        key_id=key_id, secret_hash=digest, revoked_at__isnull=True
    ).exists()


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


def admin_link(owner: Membership) -> str:
    """Return a link that logs the owner in once."""
    return f"{settings.BASE_URL}/admin/?owner={owner.id}"
