"""From what a request shows to its Principal: API keys, connect sessions, login sessions.

Further kinds of tokens are registered by the apps that issue them (credential_kinds.py).

Every refusal is a NotAuthenticatedError (401) or NotPermittedError (403) with a stable code. What
is wrong with a key or token is told only to somebody who has its secret.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from importlib import import_module
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings
from django.contrib.auth import get_user
from django.db.models import Q
from django.http import HttpRequest

from mcphub.core.clock import now
from mcphub.core.errors import InvalidInputError, NotAuthenticatedError, NotPermittedError
from mcphub.core.offload import in_thread
from tenants import credential_kinds, invalidation
from tenants.models import ApiKey, ConnectSession, Membership, Role, User
from tenants.principal import ADMIN_SCOPES, MEMBER_SCOPES, Principal, Scope

KEY_PREFIX = "mhk_"
SESSION_PREFIX = "mhs_"
LAST_USED_EVERY = timedelta(minutes=1)
EXTERNAL_ID_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The parts of a request that say who is asking; secrets stay out of the representation."""

    authorization: str = field(default="", repr=False)
    session_key: str = field(default="", repr=False)
    tenant: str = ""
    end_user: str | None = None
    """None: no such header; an empty one names nobody and is refused."""
    origin: str = ""
    resource: str = ""
    """The protected resource (RFC 8707) at which it is shown; "" is the REST API."""

    @classmethod
    def from_parts(
        cls, headers: Mapping[str, str], cookies: Mapping[str, str], *, resource: str = ""
    ) -> Shown:
        """Read case-insensitive headers, or headers in lower case."""
        end_user = headers.get("mcphub-end-user")
        return cls(
            authorization=headers.get("authorization", ""),
            session_key=cookies.get(settings.SESSION_COOKIE_NAME, ""),
            tenant=headers.get("mcphub-tenant", ""),
            end_user=None if end_user is None else _utf8(end_user),
            origin=headers.get("origin", ""),
            resource=resource,
        )

    @property
    def digest(self) -> bytes:
        """Names the credential in the cache; the origin is checked on every request instead."""
        end_user = "" if self.end_user is None else f"={self.end_user}"
        parts = (self.authorization, self.session_key, self.tenant, end_user, self.resource)
        whole = "\0".join(str(len(part)) + ":" + part for part in parts)
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).digest()


def resolve(shown: Shown) -> Principal:
    """Return the Principal of what was shown: no query for 5 s after the last look-up.

    Raises NotAuthenticatedError (`not_authenticated`, `invalid_credential`, `credential_expired`,
    `credential_revoked`, `tenant_inactive`, `member_inactive`) and NotPermittedError
    (`origin_not_allowed`, `not_a_member`, `not_permitted`); InvalidInputError for an end user's id
    that cannot be one.
    """
    return known(shown) or _look_up(shown)


async def aresolve(shown: Shown) -> Principal:
    """As `resolve`, for event loops: it leaves the loop only when a query is needed."""
    found = known(shown)
    return found if found is not None else await in_thread(_look_up, shown)


def known(shown: Shown) -> Principal | None:
    """Return the cached Principal; the origin is checked here too."""
    if not invalidation.is_listening():
        return None
    found = invalidation.principals.get(shown.digest)
    if found is not None:
        check_origin(found, shown.origin)
    return found


def confirm(principal: Principal) -> Principal:
    """Return the same Principal as it is now, read from the database by the credential's public id.

    For long-lived streams, which hold no secret. Raises NotAuthenticatedError when it has ended.
    """
    kind, _, public_id = principal.credential.partition(":")
    if kind == "api_key":
        key = _key_by(public_id)
        _check_key(key)
        check_member(key.member)
        scopes: Iterable[str] = scopes_of(key.member, key.scopes)
        principal = replace(principal, is_read_only=key.is_read_only, finds_tools=key.finds_tools)
    elif kind == "connect_session":
        return _principal_of(_session_by(Q(pk=public_id)))
    elif registered := credential_kinds.named(kind):
        return registered.by_id(public_id)
    else:
        scopes = ADMIN_SCOPES
    member = _member_by(principal)
    return replace(principal, scopes=scopes_of(member, scopes))


def scopes_of(member: Membership, granted: Iterable[str]) -> frozenset[Scope]:
    """Scopes of a credential: what it was granted, as far as the member's role goes."""
    ceiling = ADMIN_SCOPES if member.role in {Role.OWNER, Role.ADMIN} else MEMBER_SCOPES
    return frozenset(scope for scope in ceiling if scope.value in set(granted))


def hash_of(secret: str) -> str:
    """Return what is stored of a 256-bit secret; such a secret needs no slow hash."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _look_up(shown: Shown) -> Principal:
    generation = invalidation.principals.generation
    principal = _read(shown)
    check_origin(principal, shown.origin)
    ends = principal.expires_at
    seconds = (ends - now()).total_seconds() if ends else float("inf")
    invalidation.principals.put(shown.digest, principal, seconds=seconds, generation=generation)
    return principal


def _read(shown: Shown) -> Principal:
    if shown.authorization:
        scheme, _, token = shown.authorization.partition(" ")
        token = token.strip()
        if scheme.lower() == "bearer" and token.startswith(KEY_PREFIX):
            return _by_api_key(token, shown.end_user)
        if shown.end_user is not None:
            raise _end_user_refused()
        if scheme.lower() == "bearer" and token.startswith(SESSION_PREFIX):
            return _by_connect_session(token)
        kind = credential_kinds.of_token(token) if scheme.lower() == "bearer" else None
        if kind is None:
            raise invalid()
        return kind.by_token(token, shown.resource)
    if shown.session_key:
        if shown.end_user is not None:
            raise _end_user_refused()
        return _by_login(shown)
    raise NotAuthenticatedError


# --- API keys --------------------------------------------------------------------------------


def _by_api_key(token: str, end_user: str | None) -> Principal:
    key_id, _, secret = token[len(KEY_PREFIX) :].partition("_")
    key = _key_by(key_id)
    if not hmac.compare_digest(hash_of(secret), key.secret_hash):
        raise invalid()
    _check_key(key)
    check_member(key.member)
    _mark_used(key)
    scopes = scopes_of(key.member, key.scopes)
    member = key.member
    if end_user is not None:
        if Scope.ACT_AS not in scopes:
            raise _end_user_refused()
        member = end_user_member(key.member.tenant_id, end_user)
        check_member(member)
        scopes = scopes_of(member, scopes)
    return Principal(
        tenant_id=key.tenant_id,
        member_id=member.id,
        scopes=scopes,
        credential=f"api_key:{key.key_id}",
        is_read_only=key.is_read_only,
        finds_tools=key.finds_tools,
        expires_at=key.expires_at,
    )


def end_user_member(
    tenant_id: UUID, external_id: str, *, email: str = "", display_name: str = ""
) -> Membership:
    """Return the tenant's end user with this id of the app's own, made on first sight."""
    is_usable = 0 < len(external_id) <= EXTERNAL_ID_MAX and external_id.isprintable()
    if not is_usable or external_id.isspace():
        raise InvalidInputError(
            f"An end user's id has 1 to {EXTERNAL_ID_MAX} printable characters."
        )
    member, _ = Membership.unscoped.select_related("tenant").get_or_create(
        tenant_id=tenant_id,
        external_id=external_id,
        defaults={"role": Role.END_USER, "email": email, "display_name": display_name},
    )
    return member


def _key_by(key_id: str) -> ApiKey:
    key = (
        ApiKey.unscoped.select_related("member__tenant", "member__user")
        .filter(key_id=key_id[:17])
        .first()
    )
    if key is None:
        raise invalid()
    return key


def _check_key(key: ApiKey) -> None:
    if key.revoked_at is not None:
        raise NotAuthenticatedError("This API key was revoked.", code="credential_revoked")
    if key.expires_at is not None and key.expires_at <= now():
        raise NotAuthenticatedError("This API key has expired.", code="credential_expired")


def _mark_used(key: ApiKey) -> None:
    moment = now()
    old = Q(last_used_at__isnull=True) | Q(last_used_at__lt=moment - LAST_USED_EVERY)
    if key.last_used_at is None or key.last_used_at < moment - LAST_USED_EVERY:
        ApiKey.unscoped.filter(old, pk=key.pk).update(last_used_at=moment)


# --- connect sessions ------------------------------------------------------------------------


def _by_connect_session(token: str) -> Principal:
    return _principal_of(_session_by(Q(token_hash=hash_of(token))))


def _principal_of(session: ConnectSession) -> Principal:
    if session.revoked_at is not None:
        raise NotAuthenticatedError("This session was revoked.", code="credential_revoked")
    if session.expires_at <= now():
        raise NotAuthenticatedError("This session has expired.", code="credential_expired")
    check_member(session.member)
    connectors = session.allowed_connectors
    return Principal(
        tenant_id=session.tenant_id,
        member_id=session.member_id,
        scopes=scopes_of(session.member, session.scopes),
        credential=f"connect_session:{session.id}",
        allowed_connectors=None if connectors is None else frozenset(connectors),
        may_add_servers=session.allow_custom_servers,
        allowed_origins=frozenset(session.allowed_origins),
        expires_at=session.expires_at,
    )


def _session_by(which: Q) -> ConnectSession:
    sessions = ConnectSession.unscoped.select_related("member__tenant", "member__user")
    session = sessions.filter(which).first()
    if session is None:
        raise invalid()
    return session


# --- login sessions --------------------------------------------------------------------------


def _by_login(shown: Shown) -> Principal:
    user = _user_of(shown.session_key)
    memberships = Membership.unscoped.select_related("tenant", "user").filter(user=user)
    if shown.tenant:
        named = [m for m in memberships if shown.tenant in {m.tenant.slug, str(m.tenant_id)}]
    else:
        usable = memberships.filter(is_active=True, tenant__is_active=True)
        named = list(usable.order_by("created_at", "id")[:1])
    if not named:
        raise NotPermittedError("This user is not a member there.", code="not_a_member")
    member = named[0]
    check_member(member)
    digest = hashlib.sha256(shown.session_key.encode()).hexdigest()[:16]
    return Principal(
        tenant_id=member.tenant_id,
        member_id=member.id,
        scopes=scopes_of(member, ADMIN_SCOPES),
        credential=f"session:{digest}",
    )


def _user_of(session_key: str) -> User:
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user = get_user(request)  # checks the password hash that the session was opened with
    if not isinstance(user, User):
        raise NotAuthenticatedError
    return user


# --- checks that all kinds share -------------------------------------------------------------


def _member_by(principal: Principal) -> Membership:
    members = Membership.objects.of(principal).select_related("tenant", "user")
    member = members.filter(pk=principal.member_id).first()
    if member is None:
        raise invalid()
    check_member(member)
    return member


def check_member(member: Membership) -> None:
    """Raise NotAuthenticatedError unless the member, their login and their tenant are active."""
    if not member.tenant.is_active:
        raise NotAuthenticatedError("This tenant is switched off.", code="tenant_inactive")
    if not member.is_active or (member.user is not None and not member.user.is_active):
        raise NotAuthenticatedError("This member is switched off.", code="member_inactive")


def check_origin(principal: Principal, origin: str) -> None:
    """Refuse a connect session on a page that is neither of its own origins nor the hub's."""
    if not origin or principal.allowed_origins is None:
        return
    if origin not in principal.allowed_origins and not is_own_origin(origin):
        raise NotPermittedError(
            "This session does not work from this origin.", code="origin_not_allowed"
        )


def is_own_origin(origin: str) -> bool:
    """Whether `origin` is one under which the hub's own pages are served."""
    parts = urlsplit(origin)
    return f"{parts.scheme}://{parts.netloc}" in settings.CSRF_TRUSTED_ORIGINS


def invalid() -> NotAuthenticatedError:
    """Return the refusal that tells nothing."""
    return NotAuthenticatedError("This credential is not valid.", code="invalid_credential")


def _end_user_refused() -> NotPermittedError:
    return NotPermittedError(
        "Acting for an end user needs an API key with the scope 'act_as'.",
        extra={"requiredScope": Scope.ACT_AS.value},
    )


def _utf8(header: str) -> str:
    """Servers hand headers over as Latin-1; an id of an app may be any text."""
    try:
        return header.encode("latin-1").decode("utf-8")
    except (UnicodeEncodeError, UnicodeDecodeError):
        return header
