"""Authorization requests: made, taken once by whom they belong to, pruned."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from mcphub.core.crypto import Secret
from mcphub.core.sealing import seal, unseal
from oauth.clients import Client
from oauth.errors import StateInvalidError
from oauth.models import AuthorizationRequest, Grant
from oauth.records import registrations
from oauth.records.time import database_now
from tenants.models import Membership

LIFETIME = timedelta(minutes=10)
KEPT_AFTER_END = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A request as its callback needs it, after it was taken."""

    request: AuthorizationRequest
    client: Client
    verifier: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Who stands before the callback: the logged-in user, and what binds the browser.

    `member_id` is for apps that own their redirect and answer with their own credential.
    """

    user_id: int | None = None
    member_id: UUID | None = None
    browser_keys: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Visitor(user_id={self.user_id}, member_id={self.member_id})"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def add(row: AuthorizationRequest, *, state: Secret, verifier: Secret, url: Secret) -> datetime:
    """Keep a request; an earlier one of the same connection that still waits ends."""
    now = database_now()
    row.state_hash = digest(state.value)
    row.created_at, row.expires_at = now, now + LIFETIME
    row.sealed_verifier = seal(row, "sealed_verifier", verifier) or b""
    row.sealed_url = seal(row, "sealed_url", url)
    with transaction.atomic():
        waiting(row.subject_key, now).delete()
        row.save(force_insert=True)
    return row.expires_at


def waiting(subject_key: UUID, now: datetime) -> QuerySet[AuthorizationRequest]:
    return AuthorizationRequest.unscoped.filter(subject_key=subject_key, expires_at__gt=now)


def take(
    state: str, visitor: Visitor, *, subject_key: UUID | None, redirect_uri: str | None = None
) -> Pending:
    """Return the request and end it, once. Raises StateInvalidError and then changes nothing."""
    with transaction.atomic():
        rows = AuthorizationRequest.unscoped.select_related("member__tenant", "registration")
        row = rows.filter(state_hash=digest(state)).first()
        if row is None or not _fits(row, visitor, subject_key):
            raise StateInvalidError
        if redirect_uri is not None and row.redirect_uri.partition("?")[0] != redirect_uri:
            raise StateInvalidError
        pending = Pending(
            request=row,
            client=registrations.client_of(row.registration),
            verifier=unseal(row, "sealed_verifier") or Secret(""),
        )
        # Of two callbacks at the same time one deletes the row; the other finds nothing.
        deleted, _ = AuthorizationRequest.unscoped.filter(pk=row.pk).delete()
        if not deleted:
            raise StateInvalidError
    return pending


def address_of(request_id: UUID, visitor: Visitor | None = None) -> Secret | None:
    """Return the address at the authorization server, None when it is over.

    A member who is logged in gets the request bound to their browser of now. Raises
    StateInvalidError for a visitor whom the callback would refuse: then nobody consents in vain.
    """
    rows = AuthorizationRequest.unscoped.select_related("member")
    row = rows.filter(pk=request_id, expires_at__gt=database_now()).first()
    if row is None:
        return None
    if visitor is not None:
        _bind(row, visitor)
    return unseal(row, "sealed_url")


def _bind(row: AuthorizationRequest, visitor: Visitor) -> None:
    keys = [digest(key) for key in visitor.browser_keys]
    is_member = visitor.user_id is not None and visitor.user_id == row.member.user_id
    if is_member and keys:
        AuthorizationRequest.unscoped.filter(pk=row.pk).update(browser_hash=keys[0])
    elif row.browser_hash and row.browser_hash not in keys:
        raise StateInvalidError


def known_among(subject_keys: Collection[UUID]) -> list[UUID]:
    """Return those connections that have a grant or a sign-in that waits. Two queries."""
    held = Grant.unscoped.filter(subject_key__in=subject_keys)
    begun = AuthorizationRequest.unscoped.filter(subject_key__in=subject_keys)
    keys = [rows.values_list("subject_key", flat=True) for rows in (held, begun)]
    return sorted({key for found in keys for key in found})


def cancel(subject_key: UUID) -> None:
    """End what waits for a connection that nobody wants any more."""
    AuthorizationRequest.unscoped.filter(subject_key=subject_key).delete()


def prune() -> int:
    """Remove requests that ended a day ago; until then they tell an abandoned sign-in."""
    oldest = database_now() - KEPT_AFTER_END
    return AuthorizationRequest.unscoped.filter(expires_at__lt=oldest).delete()[0]


def _fits(row: AuthorizationRequest, visitor: Visitor, subject_key: UUID | None) -> bool:
    """Whether the request is the visitor's.

    A credential of the member stands for more than a browser: with it one may begin sign-ins and
    use their outcome. What it must not do is finish somebody else's, so it has to be the member's
    own, and the path has to name the connection. A browser without one shows what binds it.
    """
    if row.expires_at <= database_now() or not _is_active(row.member):
        return False
    if subject_key is not None and row.subject_key != subject_key:
        return False
    if visitor.member_id is not None:
        return visitor.member_id == row.member_id
    if row.browser_hash and row.browser_hash not in map(digest, visitor.browser_keys):
        return False
    if row.member.user_id is not None:
        return visitor.user_id == row.member.user_id
    return bool(row.browser_hash)


def _is_active(member: Membership) -> bool:
    return member.is_active and member.tenant.is_active
