"""Connect sessions: short-lived tokens with which an app's end user reaches the hub."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from mcphub.core import ids
from mcphub.core.clock import now
from mcphub.core.errors import FieldProblem, InvalidInputError, NotPermittedError
from tenants import credentials, selectors
from tenants.api_keys import require_within
from tenants.invalidation import Change, announce
from tenants.models import ConnectSession, Membership
from tenants.principal import Principal, Scope

DEFAULT_SCOPES = frozenset({Scope.SERVERS_READ, Scope.SERVERS_CONNECT, Scope.TOOLS_CALL})

KnownConnectors = Callable[[Principal], Collection[str]]

_known_connectors: list[KnownConnectors] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class EndUser:
    """The app's own user; `external_id` is the app's id."""

    external_id: str
    email: str = ""
    display_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """What is wanted; None: every connector, the usual scopes, the tenant's origins."""

    end_user: EndUser
    ttl_seconds: int
    allowed_connectors: list[str] | None = None
    allow_custom_servers: bool = False
    allowed_origins: list[str] | None = None
    scopes: frozenset[Scope] | None = None
    return_url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedSession:
    session: ConnectSession
    token: str = field(repr=False)


def create(principal: Principal, *, new: NewSession) -> IssuedSession:
    """Make a session for an end user, who becomes a member on first sight.

    Raises NotPermittedError; InvalidInputError for connectors that the tenant does not have.
    """
    principal.require(Scope.CONNECT_SESSIONS_WRITE)
    scopes = DEFAULT_SCOPES & principal.scopes if new.scopes is None else new.scopes
    require_within(principal, scopes)
    if principal.is_read_only:
        raise NotPermittedError("A read-only key cannot hand on what it may not do itself.")
    _check_connectors(principal, new.allowed_connectors or ())
    origins = new.allowed_origins
    if origins is None:
        origins = selectors.tenant_of(principal).allowed_origins
    secret = credentials.SESSION_PREFIX + ids.new_secret()
    session = ConnectSession.unscoped.create(
        tenant_id=principal.tenant_id,
        member=_member_of(principal, new.end_user),
        token_hash=credentials.hash_of(secret),
        scopes=sorted(scope.value for scope in scopes),
        allowed_connectors=new.allowed_connectors,
        allow_custom_servers=new.allow_custom_servers,
        allowed_origins=origins,
        return_url=new.return_url,
        expires_at=now() + timedelta(seconds=new.ttl_seconds),
    )
    return IssuedSession(session=session, token=secret)


def revoke(principal: Principal, *, session_id: str) -> None:
    """End a session of the tenant; doing it again changes nothing. Raises NotFoundError."""
    principal.require(Scope.CONNECT_SESSIONS_WRITE)
    end(selectors.connect_session_for(principal, session_id))


def end(session: ConnectSession) -> None:
    """Revoke without asking who does it. Operator's work: admin site."""
    ConnectSession.unscoped.filter(pk=session.pk, revoked_at__isnull=True).update(revoked_at=now())
    announce(Change(tenant_id=session.tenant_id))


def prune(*, older_than: timedelta = timedelta(days=1)) -> int:
    """Delete sessions that ended a day ago; returns how many. System work."""
    deleted, _ = ConnectSession.unscoped.filter(expires_at__lt=now() - older_than).delete()
    return deleted


def register_connectors(known: KnownConnectors) -> None:
    """Say which connectors a tenant has (from an AppConfig.ready of the package above)."""
    if known not in _known_connectors:
        _known_connectors.append(known)


def _check_connectors(principal: Principal, wanted: Sequence[str]) -> None:
    """Refuse a session that is limited to what does not exist: it could do nothing there."""
    if not wanted:
        return
    known = {slug for source in _known_connectors for slug in source(principal)}
    problems = [
        FieldProblem(
            path=f"/allowedConnectors/{place}",
            message="There is no such connector.",
            code="unknown_connector",
        )
        for place, slug in enumerate(wanted)
        if slug not in known
    ]
    if problems:
        raise InvalidInputError(problems=problems)


def _member_of(principal: Principal, end_user: EndUser) -> Membership:
    member = credentials.end_user_member(
        principal.tenant_id,
        end_user.external_id,
        email=end_user.email,
        display_name=end_user.display_name,
    )
    given = {"email": end_user.email, "display_name": end_user.display_name}
    changed = {name: v for name, v in given.items() if v and getattr(member, name) != v}
    for name, value in changed.items():
        setattr(member, name, value)
    if changed:
        member.save(update_fields=list(changed))
    return member
