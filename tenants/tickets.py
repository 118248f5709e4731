"""Tickets with which a browser opens a stream: 30 seconds, once (API design §7)."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from mcphub.core.clock import now
from mcphub.core.errors import NotAuthenticatedError
from tenants import credentials, single_use
from tenants.principal import Principal

KIND = "ticket"
SECONDS = 30
SOCKET_PATH = "/ws/v1/events"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    ticket: str
    expires_at: datetime
    url: str


def issue(principal: Principal) -> Ticket:
    """Return a ticket for this principal; it names the credential and holds none."""
    origins = principal.allowed_origins
    token = single_use.issue(
        KIND,
        {
            "tenant": principal.tenant_id.hex,
            "member": principal.member_id.hex,
            "credential": principal.credential,
            "origins": None if origins is None else list(origins),
        },
        seconds=SECONDS,
    )
    url = "ws" + settings.BASE_URL.removeprefix("http") + SOCKET_PATH
    return Ticket(ticket=token, expires_at=now() + timedelta(seconds=SECONDS), url=url)


def redeem(token: str) -> Principal:
    """Return the principal as it is now, and end the ticket. Raises NotAuthenticatedError."""
    payload = single_use.redeem(KIND, token)
    if payload is None:
        raise NotAuthenticatedError("This ticket is not valid.", code="invalid_credential")
    origins = payload["origins"]
    shown = Principal(
        tenant_id=uuid.UUID(str(payload["tenant"])),
        member_id=uuid.UUID(str(payload["member"])),
        scopes=frozenset(),
        credential=str(payload["credential"]),
        allowed_origins=frozenset(map(str, origins)) if isinstance(origins, list) else None,
    )
    return credentials.confirm(shown)
