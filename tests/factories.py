"""Makes tenants, people and credentials for tests, through the services that the product uses."""

from __future__ import annotations

import itertools
import secrets
from datetime import timedelta

from mcphub.core.clock import now
from tenants import api_keys, connect_sessions, credentials
from tenants import services as tenant_services
from tenants.models import Membership, Role, Tenant, User
from tenants.principal import ADMIN_SCOPES, Principal, Scope

_numbers = itertools.count(1)


def unique(word: str) -> str:
    """Return a name that no other call in this or another process returns."""
    return f"{word}-{next(_numbers)}{secrets.token_hex(3)}"


def make_user(name: str = "", *, is_operator: bool = False) -> User:
    username = name or unique("user")
    make = User.objects.create_superuser if is_operator else User.objects.create_user
    return make(username=username, email=f"{username}@example.org", password="correct horse")


def make_tenant(name: str = "", *, owner: User | None = None) -> Membership:
    """Return the owner's membership of a new tenant."""
    return tenant_services.create_tenant(
        name=name or "Tenant", slug=unique(name.lower() or "tenant"), owner=owner or make_user()
    )


def make_member(
    tenant: Tenant, *, role: Role = Role.MEMBER, user: User | None = None
) -> Membership:
    person = user or make_user()
    return Membership.unscoped.create(
        tenant=tenant, user=person, role=role, display_name=person.username, email=person.email
    )


def make_end_user(tenant: Tenant, external_id: str = "") -> Membership:
    return credentials.end_user_member(tenant.id, external_id or unique("u"))


def make_key(
    member: Membership, *scopes: Scope, expires_in: timedelta | None = None
) -> api_keys.IssuedKey:
    """Return a key with these scopes, or with all that the member's role may have."""
    issued = api_keys.issue(
        member, new=api_keys.NewKey(name=unique("key"), scopes=frozenset(scopes) or None)
    )
    if expires_in is not None:
        issued.api_key.expires_at = now() + expires_in
        issued.api_key.save(update_fields=["expires_at"])
    return issued


def make_connect_session(
    member: Membership, *, origins: list[str] | None = None, ttl_seconds: int = 1800
) -> connect_sessions.IssuedSession:
    """Return a session of a new end user in the tenant of `member`, who is one of its admins."""
    return connect_sessions.create(
        principal_of(member),
        new=connect_sessions.NewSession(
            end_user=connect_sessions.EndUser(external_id=unique("u")),
            ttl_seconds=ttl_seconds,
            allowed_origins=origins,
        ),
    )


def principal_of(member: Membership, *scopes: Scope) -> Principal:
    """Return a principal without a credential, for calls of services."""
    granted = [scope.value for scope in scopes or ADMIN_SCOPES]
    return Principal(
        tenant_id=member.tenant_id,
        member_id=member.id,
        scopes=credentials.scopes_of(member, granted),
    )
