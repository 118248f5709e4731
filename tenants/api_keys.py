"""Making, rotating and revoking API keys; the secret is returned once and never stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from mcphub.core import ids
from mcphub.core.clock import now
from mcphub.core.errors import (
    ConflictError,
    FieldProblem,
    InvalidInputError,
    NotPermittedError,
)
from tenants import credentials, selectors
from tenants.invalidation import Change, announce
from tenants.models import ApiKey, Membership
from tenants.principal import ADMIN_SCOPES, Principal, Scope

KEY_ID_LENGTH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """What is wanted; `scopes` None: all that the maker has."""

    name: str
    scopes: frozenset[Scope] | None = None
    is_read_only: bool = False
    finds_tools: bool = False
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedKey:
    """A key and its secret text, which nobody can read again."""

    api_key: ApiKey
    secret: str = field(repr=False)


def issue(member: Membership, *, new: NewKey) -> IssuedKey:
    """Make a key for `member`. Operator's work: admin site and command line."""
    scopes = ADMIN_SCOPES if new.scopes is None else new.scopes
    if new.expires_at is not None and new.expires_at <= now():
        raise InvalidInputError(
            problems=[FieldProblem(path="/expiresAt", message="This is in the past.")]
        )
    key_id, secret = ids.new_secret()[:KEY_ID_LENGTH], ids.new_secret()
    api_key = ApiKey.unscoped.create(
        tenant_id=member.tenant_id,
        member=member,
        name=new.name,
        key_id=key_id,
        secret_hash=credentials.hash_of(secret),
        scopes=_sorted(scopes & credentials.scopes_of(member, ADMIN_SCOPES)),
        is_read_only=new.is_read_only,
        finds_tools=new.finds_tools,
        expires_at=new.expires_at,
    )
    return _issued(api_key, secret)


def create(principal: Principal, *, new: NewKey) -> IssuedKey:
    """Make a key of the caller's own, which may do no more than the caller."""
    principal.require(Scope.API_KEYS_WRITE)
    scopes = principal.scopes if new.scopes is None else new.scopes
    require_within(principal, scopes)
    member = selectors.own_membership(principal)
    is_read_only = new.is_read_only or principal.is_read_only
    return issue(member, new=replace(new, scopes=scopes, is_read_only=is_read_only))


def rotate(principal: Principal, *, api_key_id: str) -> IssuedKey:
    """Give the key a new secret; the old one ends at once. Raises NotFoundError, ConflictError."""
    principal.require(Scope.API_KEYS_WRITE)
    api_key = selectors.api_key_for(principal, api_key_id)
    require_within(principal, map(Scope, api_key.scopes))
    if principal.is_read_only and not api_key.is_read_only:
        raise NotPermittedError("A read-only key cannot hand on what it may not do itself.")
    secret = ids.new_secret()
    live = ApiKey.objects.of(principal).filter(pk=api_key.pk, revoked_at__isnull=True)
    if not live.update(secret_hash=credentials.hash_of(secret)):
        raise ConflictError("This API key was revoked.")
    announce(Change(tenant_id=api_key.tenant_id))
    return _issued(api_key, secret)


def revoke(principal: Principal, *, api_key_id: str) -> None:
    """End a key of the tenant; doing it again changes nothing. Raises NotFoundError."""
    principal.require(Scope.API_KEYS_WRITE)
    end(selectors.api_key_for(principal, api_key_id))


def end(api_key: ApiKey) -> None:
    """Revoke without asking who does it. Operator's work: admin site."""
    ApiKey.unscoped.filter(pk=api_key.pk, revoked_at__isnull=True).update(revoked_at=now())
    announce(Change(tenant_id=api_key.tenant_id))


def require_within(principal: Principal, scopes: Iterable[Scope]) -> None:
    """Raise NotPermittedError when a credential would hand on more than it has."""
    beyond = set(scopes) - principal.scopes
    if beyond:
        names = ", ".join(_sorted(beyond))
        raise NotPermittedError(f"The credential cannot hand on scopes it lacks: {names}.")


def _issued(api_key: ApiKey, secret: str) -> IssuedKey:
    return IssuedKey(api_key=api_key, secret=f"{credentials.KEY_PREFIX}{api_key.key_id}_{secret}")


def _sorted(scopes: Iterable[Scope]) -> list[str]:
    return sorted(scope.value for scope in scopes)
