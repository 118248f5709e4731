"""Grants: every change of tokens is one compare-and-set on `version`, committed as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import F, Q

from mcphub.core.crypto import Secret
from mcphub.core.sealing import seal, unseal
from oauth import signals
from oauth.clients import Client
from oauth.models import AuthorizationRequest, Grant, GrantStatus
from oauth.names import Change, GrantType, LostReason
from oauth.records import registrations
from oauth.records.announcements import announce, ids_of
from oauth.records.time import database_now
from oauth.tokens import TokenAnswer

STEP_UP_RESET = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A grant as one read saw it, secrets opened; `seen_at` is the database's time."""

    id: UUID
    subject_key: UUID
    tenant_id: UUID
    member_id: UUID
    kind: GrantType
    client: Client
    server_url: str
    token_endpoint: str
    revocation_endpoint: str
    resource: str
    scopes: tuple[str, ...]
    access_token: Secret
    refresh_token: Secret | None
    issued_at: datetime
    expires_at: datetime | None
    version: int
    status: GrantStatus
    lost_reason: LostReason | None
    is_leased: bool
    next_attempt_at: datetime | None
    failures: int
    is_forced: bool
    step_ups: dict[str, int]
    seen_at: datetime

    @property
    def is_active(self) -> bool:
        return self.status == GrantStatus.ACTIVE

    @property
    def can_renew(self) -> bool:
        """Whether a new token can be had without a person."""
        return self.kind is GrantType.CLIENT_CREDENTIALS or self.refresh_token is not None

    @property
    def seconds_left(self) -> float:
        """How long the access token lives; infinite when the server did not say."""
        if self.expires_at is None:
            return float("inf")
        return (self.expires_at - self.seen_at).total_seconds()

    @property
    def lifetime(self) -> float:
        if self.expires_at is None:
            return float("inf")
        return (self.expires_at - self.issued_at).total_seconds()

    @property
    def pause_left(self) -> float:
        """Seconds until the next attempt after a failure; 0 when it may be made now."""
        if self.next_attempt_at is None:
            return 0.0
        return max(0.0, (self.next_attempt_at - self.seen_at).total_seconds())


@dataclass(frozen=True, slots=True, kw_only=True)
class NewGrant:
    """What a first token answer becomes."""

    tenant_id: UUID
    member_id: UUID
    subject_key: UUID
    kind: GrantType
    registration_id: UUID
    server_url: str
    issuer: str
    token_endpoint: str
    revocation_endpoint: str
    resource: str
    scopes: tuple[str, ...]
    operation: str = ""

    @classmethod
    def of_request(cls, request: AuthorizationRequest) -> NewGrant:
        return cls(
            tenant_id=request.tenant_id,
            member_id=request.member_id,
            subject_key=request.subject_key,
            kind=GrantType.AUTHORIZATION_CODE,
            registration_id=request.registration_id,
            server_url=request.server_url,
            issuer=request.issuer,
            token_endpoint=request.token_endpoint,
            revocation_endpoint=request.revocation_endpoint,
            resource=request.resource,
            scopes=tuple(request.scopes),
            operation=request.operation,
        )


def find(subject_key: UUID) -> Snapshot | None:
    """Return the grant of a connection as it is now. Raises CredentialUnreadableError."""
    rows = Grant.unscoped.select_related("registration")
    row = rows.filter(subject_key=subject_key).first()
    return _snapshot(row) if row else None


def put(new: NewGrant, answer: TokenAnswer) -> UUID:
    """Keep the tokens of a finished sign-in, in place of what the connection had before."""
    for _ in range(2):
        try:
            with transaction.atomic():
                return _put(new, answer)
        except IntegrityError:  # another process made the row at the same time
            continue
    raise RuntimeError("a grant could not be stored")


def _put(new: NewGrant, answer: TokenAnswer) -> UUID:
    rows = Grant.unscoped.select_for_update().filter(subject_key=new.subject_key)
    row = rows.first()
    is_new = row is None
    if row is None:
        row = Grant(subject_key=new.subject_key, tenant_id=new.tenant_id, version=0)
    row.member_id = new.member_id
    row.registration_id = new.registration_id
    row.kind = new.kind.value
    for name in ("server_url", "issuer", "token_endpoint", "revocation_endpoint", "resource"):
        setattr(row, name, getattr(new, name))
    row.step_ups = _step_ups(row, new.operation)
    row.signed_in_as, row.is_forced = "", False
    row.last_refresh_at, row.refresh_holder, row.refresh_until = None, "", None
    row.sealed_refresh_token = seal(row, "sealed_refresh_token", answer.refresh_token)
    for name, value in _token_fields(row, answer, new.scopes).items():
        setattr(row, name, value)
    row.version += 1
    row.save(force_insert=is_new, force_update=not is_new)
    registrations.note_used(new.registration_id)
    announce(signals.authorization_completed, ids_of(row))
    return row.pk


def advance(seen: Snapshot, answer: TokenAnswer, *, is_forced: bool) -> bool:
    """Store the answer of a refresh if the grant is still at the version that was spent.

    A valid answer wins over a colleague's "lost" of the same version: it proves the opposite.
    """
    row = Grant(pk=seen.id)
    fields = _token_fields(row, answer, seen.scopes)
    if answer.refresh_token is not None:
        fields["sealed_refresh_token"] = seal(row, "sealed_refresh_token", answer.refresh_token)
    fields |= {
        "version": F("version") + 1,
        "is_forced": is_forced,
        "last_refresh_at": fields["issued_at"],
        "refresh_holder": "",
        "refresh_until": None,
    }
    with transaction.atomic():
        is_stored = Grant.unscoped.filter(pk=seen.id, version=seen.version).update(**fields)
        if is_stored:
            announce(signals.authorization_changed, ids_of(seen), Change.REFRESHED)
    return bool(is_stored)


def postpone(seen: Snapshot, holder: str, *, seconds: float, failure: str) -> None:
    """Keep the tokens, give the lease back and do not try again for a while."""
    rows = Grant.unscoped.filter(pk=seen.id, version=seen.version, refresh_holder=holder)
    with transaction.atomic():
        is_postponed = rows.update(
            refresh_holder="",
            refresh_until=None,
            failures=F("failures") + 1,
            next_attempt_at=database_now() + timedelta(seconds=seconds),
            last_failure=failure,
        )
        if is_postponed:
            announce(signals.authorization_changed, ids_of(seen), Change.REFRESH_DELAYED)


def lose(seen: Snapshot, reason: LostReason) -> bool:
    """Mark the grant lost if nobody has stored newer tokens; the sealed ones stay for a while."""
    rows = Grant.unscoped.filter(pk=seen.id, version=seen.version, status=GrantStatus.ACTIVE)
    with transaction.atomic():
        lost = rows.update(
            status=GrantStatus.LOST,
            lost_reason=reason.value,
            lost_at=database_now(),
            refresh_holder="",
            refresh_until=None,
        )
        if lost:
            announce(signals.authorization_lost, ids_of(seen), reason)
    return bool(lost)


def revive(subject_key: UUID) -> bool:
    """Give a lost grant one more try, as long as its tokens are kept (row C13)."""
    rows = Grant.unscoped.filter(subject_key=subject_key, status=GrantStatus.LOST)
    return bool(
        rows.exclude(sealed_refresh_token=None).update(
            status=GrantStatus.ACTIVE,
            lost_reason="",
            lost_at=None,
            next_attempt_at=None,
            expires_at=database_now(),
        )
    )


def end(subject_key: UUID, reason: LostReason) -> Snapshot | None:
    """Make the grant unusable at once and return what it held, to be revoked; then `erase`."""
    with transaction.atomic():
        rows = Grant.unscoped.select_related("registration").filter(subject_key=subject_key)
        row = rows.first()
        if row is None:
            return None
        seen = _snapshot(row)
        ended = Grant.unscoped.filter(pk=row.pk, version=row.version).update(
            status=GrantStatus.LOST,
            lost_reason=reason.value,
            lost_at=seen.seen_at,
            version=F("version") + 1,
            sealed_refresh_token=None,
            sealed_access_token=b"",
        )
        if not ended:
            return end(subject_key, reason)
        announce(signals.authorization_lost, ids_of(seen), reason)
    return seen


def erase(grant_id: UUID) -> None:
    Grant.unscoped.filter(pk=grant_id, status=GrantStatus.LOST).delete()


def name_identity(grant_id: UUID, signed_in_as: str) -> None:
    Grant.unscoped.filter(pk=grant_id).update(signed_in_as=signed_in_as)


def due(within: timedelta, limit: int) -> list[UUID]:
    """Return connections whose token ends soon and can be renewed, the first to end first."""
    now = database_now()
    rows = Grant.unscoped.filter(status=GrantStatus.ACTIVE, expires_at__lt=now + within)
    rows = rows.filter(
        Q(sealed_refresh_token__isnull=False) | Q(kind=GrantType.CLIENT_CREDENTIALS.value)
    )
    rows = rows.filter(Q(next_attempt_at__isnull=True) | Q(next_attempt_at__lte=now))
    rows = rows.filter(Q(refresh_until__isnull=True) | Q(refresh_until__lte=now))
    return list(rows.order_by("expires_at").values_list("subject_key", flat=True)[:limit])


def issued_since(moments: Mapping[UUID, datetime]) -> list[UUID]:
    """Return those connections that got a usable token after their moment. One query."""
    rows = Grant.unscoped.filter(status=GrantStatus.ACTIVE, subject_key__in=list(moments))
    found = rows.values_list("subject_key", "issued_at")
    return [key for key, issued_at in found if issued_at > moments[key]]


def prune(grace: timedelta) -> int:
    """Erase grants that are lost for longer than the grace period, with their secrets."""
    oldest = database_now() - grace
    return Grant.unscoped.filter(status=GrantStatus.LOST, lost_at__lt=oldest).delete()[0]


def _snapshot(row: Grant) -> Snapshot:
    now = database_now()
    return Snapshot(
        id=row.pk,
        subject_key=row.subject_key,
        tenant_id=row.tenant_id,
        member_id=row.member_id,
        kind=GrantType(row.kind),
        client=registrations.client_of(row.registration),
        server_url=row.server_url,
        token_endpoint=row.token_endpoint,
        revocation_endpoint=row.revocation_endpoint,
        resource=row.resource,
        scopes=tuple(row.scopes),
        access_token=unseal(row, "sealed_access_token") or Secret(""),
        refresh_token=unseal(row, "sealed_refresh_token"),
        issued_at=row.issued_at,
        expires_at=row.expires_at,
        version=row.version,
        status=GrantStatus(row.status),
        lost_reason=LostReason(row.lost_reason) if row.lost_reason else None,
        is_leased=row.refresh_until is not None and row.refresh_until > now,
        next_attempt_at=row.next_attempt_at,
        failures=row.failures,
        is_forced=row.is_forced,
        step_ups=dict(row.step_ups),
        seen_at=now,
    )


def _token_fields(row: Grant, answer: TokenAnswer, asked: tuple[str, ...]) -> dict[str, object]:
    now = database_now()
    fields: dict[str, object] = {
        "sealed_access_token": seal(row, "sealed_access_token", answer.access_token),
        "issued_at": now,
        "expires_at": _after(now, answer.expires_in),
        "scopes": list(answer.scopes if answer.scopes is not None else asked),
        "status": GrantStatus.ACTIVE,
        "lost_reason": "",
        "lost_at": None,
        "failures": 0,
        "next_attempt_at": None,
        "last_failure": "",
    }
    if answer.refresh_token is not None:
        fields["refresh_expires_at"] = _after(now, answer.refresh_expires_in)
    return fields


def _after(now: datetime, seconds: float | None) -> datetime | None:
    return None if seconds is None else now + timedelta(seconds=seconds)


def _step_ups(row: Grant, operation: str) -> dict[str, int]:
    """Count a step-up for one operation; a plain sign-in starts afresh."""
    if operation == STEP_UP_RESET:
        return {}
    counts = dict(row.step_ups)
    return counts | {operation: counts.get(operation, 0) + 1}
