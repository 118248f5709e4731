"""What a member may know about the authorization of a connection: never a token."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.conf import settings

from mcphub.core.clock import now
from mcphub.core.crypto import Secret
from mcphub.core.sealing import unseal
from oauth.forecast import Forecast, Known, forecast
from oauth.models import AuthorizationRequest, Grant, GrantStatus
from oauth.names import GrantType
from tenants.principal import Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantView:
    """A grant without its secrets."""

    id: UUID
    subject_key: UUID
    issuer: str
    resource: str
    server_url: str
    scopes: tuple[str, ...]
    is_lost: bool
    lost_reason: str
    signed_in_as: str
    last_refresh_at: datetime | None
    failures: int
    next_attempt_at: datetime | None
    forecast: Forecast


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingView:
    """A sign-in that waits for the person; the URL is for that person only."""

    authorization_url: Secret
    issuer: str
    scopes: tuple[str, ...]
    expires_at: datetime


def grant_for(principal: Principal, subject_key: UUID) -> GrantView | None:
    """Return the principal's grant for a connection. One query."""
    return grants_for(principal, [subject_key]).get(subject_key)


def grants_for(principal: Principal, subject_keys: list[UUID]) -> dict[UUID, GrantView]:
    """Return the principal's grants by connection. One query."""
    rows = Grant.objects.of(principal).filter(
        member_id=principal.member_id, subject_key__in=subject_keys
    )
    return {row.subject_key: view_of(row) for row in rows}


def pending_for(principal: Principal, subject_key: UUID) -> PendingView | None:
    """Return the sign-in that waits for this connection. One query."""
    rows = AuthorizationRequest.objects.of(principal).filter(
        member_id=principal.member_id, subject_key=subject_key, expires_at__gt=now()
    )
    row = rows.order_by("-id").first()
    url = unseal(row, "sealed_url") if row else None
    if row is None or url is None:
        return None
    return PendingView(
        authorization_url=url,
        issuer=row.issuer,
        scopes=tuple(row.scopes),
        expires_at=row.expires_at,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestView:
    """What a member is asked to allow, and where.

    The address is the hub's and leads on: the state stays out of events, Redis and problems.
    """

    authorization_url: str
    issuer: str
    scopes: tuple[str, ...]
    expires_at: datetime


def requests_for(principal: Principal, subject_keys: list[UUID]) -> dict[UUID, RequestView]:
    """Return by connection where the principal can sign in now. One query."""
    rows = AuthorizationRequest.objects.of(principal).filter(
        member_id=principal.member_id, subject_key__in=subject_keys, expires_at__gt=now()
    )
    return {
        row.subject_key: RequestView(
            authorization_url=f"{settings.BASE_URL}/oauth/authorize/{row.pk}",
            issuer=row.issuer,
            scopes=tuple(row.scopes),
            expires_at=row.expires_at,
        )
        for row in rows.order_by("id").only("subject_key", "issuer", "scopes", "expires_at")
    }


def view_of(row: Grant) -> GrantView:
    is_lost = row.status == GrantStatus.LOST
    known = Known(
        grant_id=row.pk,
        issued_at=row.issued_at,
        expires_at=row.expires_at,
        refresh_expires_at=row.refresh_expires_at,
        has_refresh=bool(row.sealed_refresh_token)
        or row.kind == GrantType.CLIENT_CREDENTIALS.value,
        lost_reason=row.lost_reason,
        is_lost=is_lost,
        last_failure=row.last_failure,
        next_attempt_at=row.next_attempt_at,
    )
    return GrantView(
        id=row.pk,
        subject_key=row.subject_key,
        issuer=row.issuer,
        resource=row.resource,
        server_url=row.server_url,
        scopes=tuple(row.scopes),
        is_lost=is_lost,
        lost_reason=row.lost_reason,
        signed_in_as=row.signed_in_as,
        last_refresh_at=row.last_refresh_at,
        failures=row.failures,
        next_attempt_at=row.next_attempt_at,
        forecast=forecast(known, now()),
    )
