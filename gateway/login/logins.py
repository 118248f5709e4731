"""Begin, list and end the logins of MCP clients, and sweep what is past its time."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from oauth2_provider.models import clear_expired, get_refresh_token_model

from gateway.login.models import ClientLogin, DownstreamClient
from mcphub.core.clock import now
from mcphub.core.errors import NotFoundError
from tenants.invalidation import Change, announce
from tenants.models import Membership
from tenants.principal import Principal

logger = logging.getLogger(__name__)

UNFINISHED = timedelta(minutes=10)
UNUSED_CLIENT = timedelta(days=1)
ENDED_KEPT = timedelta(days=30)


class EndReason(StrEnum):
    """Why a login is over; kept for whoever looks at it."""

    USER = "user"
    OPERATOR = "operator"
    CLIENT = "client"
    CODE_REUSED = "code_reused"
    TOKEN_REUSED = "token_reused"  # noqa: S105  (no token)
    IDLE = "idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """What a person agreed to."""

    member: Membership
    client: DownstreamClient
    scopes: tuple[str, ...]
    endpoint: str


def begin(consent: Consent, *, code_digest: str) -> ClientLogin:
    """Store the consent; it becomes a login when the client redeems its code."""
    return ClientLogin.unscoped.create(
        tenant_id=consent.member.tenant_id,
        member=consent.member,
        client=consent.client,
        scopes=list(consent.scopes),
        endpoint=consent.endpoint,
        code_digest=code_digest,
    )


def redeem(code_digest: str) -> UUID | None:
    """Spend the code: the login's id for exactly one caller, None for every other."""
    begun = ClientLogin.unscoped.filter(code_digest=code_digest, ended_at__isnull=True)
    if not begun.filter(signed_in_at__isnull=True).update(signed_in_at=now()):
        return None
    return begun.values_list("pk", flat=True).first()


def find(login_id: UUID | None) -> ClientLogin | None:
    """Return the login of a family of refresh tokens."""
    return ClientLogin.unscoped.filter(pk=login_id).first() if login_id else None


def end_by_code(code_digest: str, client: DownstreamClient) -> None:
    """End what began with a code that is shown again: its tokens may be a thief's."""
    spent = ClientLogin.unscoped.filter(code_digest=code_digest, client=client)
    for login in spent.filter(signed_in_at__isnull=False):
        end(login, EndReason.CODE_REUSED)


def end(login: ClientLogin, reason: EndReason) -> bool:
    """End a login with all its tokens, in every process at once; False: it was over already."""
    with transaction.atomic():
        live = ClientLogin.unscoped.filter(pk=login.pk, ended_at__isnull=True)
        has_ended = bool(live.update(ended_at=now(), end_reason=reason.value))
        get_refresh_token_model().revoke_family(login.pk)
        announce(Change(credential=login.credential))
    if has_ended:
        logger.info("client login ended login=%s reason=%s", login.pk, reason.value)
    return has_ended


def end_all_of(client: DownstreamClient, reason: EndReason) -> int:
    """End every login of a client; returns how many."""
    live = ClientLogin.unscoped.filter(client=client, ended_at__isnull=True)
    return sum(end(login, reason) for login in live)


def memberships_of(user_id: int) -> QuerySet[Membership]:
    """Return the memberships that a person can let a client use, oldest first."""
    own = Membership.unscoped.select_related("tenant").filter(user_id=user_id)
    return own.filter(is_active=True, tenant__is_active=True).order_by("created_at", "id")


def logins_for(principal: Principal) -> QuerySet[ClientLogin]:
    """Logins of the principal's own member that are not over."""
    rows = ClientLogin.objects.of(principal).select_related("client")
    return rows.filter(
        member_id=principal.member_id, ended_at__isnull=True, signed_in_at__isnull=False
    )


def login_for(principal: Principal, login_id: str) -> ClientLogin:
    """Return one of them. Raises NotFoundError."""
    try:
        found = logins_for(principal).filter(pk=UUID(login_id)).first()
    except ValueError:
        found = None
    if found is None:
        raise NotFoundError
    return found


def sweep() -> int:
    """Remove what is past its time: tokens, unfinished and old logins, unused registrations."""
    clear_expired()
    _end_idle()
    moment = now()
    removed = [
        ClientLogin.unscoped.filter(
            signed_in_at__isnull=True, created_at__lt=moment - UNFINISHED
        ).delete(),
        ClientLogin.unscoped.filter(ended_at__lt=moment - ENDED_KEPT).delete(),
        abandoned().filter(created__lt=moment - UNUSED_CLIENT).delete(),
    ]
    return sum(count for count, _ in removed)


def abandoned() -> QuerySet[DownstreamClient]:
    """Clients that registered themselves and that nobody ever let sign in."""
    kinds = DownstreamClient.RegistrationSource
    own = DownstreamClient.objects.filter(registration_source__in=(kinds.DCR, kinds.CIMD))
    found: QuerySet[DownstreamClient] = own.filter(is_active=True, logins__isnull=True)
    return found


def _end_idle() -> None:
    """End logins whose tokens have all gone: idle for longer than a refresh token lives."""
    tokens = get_refresh_token_model().objects.filter(
        token_family=OuterRef("pk"), revoked__isnull=True
    )
    begun = ClientLogin.unscoped.filter(ended_at__isnull=True, signed_in_at__lt=now() - UNFINISHED)
    for login in begun.exclude(Exists(tokens))[:1000]:
        end(login, EndReason.IDLE)
