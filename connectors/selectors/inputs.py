"""Questions of servers as one principal sees them: the principal's own, on servers it may see."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from django.db.models import QuerySet

from connectors.models import InputKind, InputRequest, InputState
from connectors.models.sealed import open_json
from connectors.selectors.connections import rows_for
from mcphub.core import clock
from mcphub.core.crypto import CredentialUnreadableError
from mcphub.core.errors import NotFoundError
from mcphub.core.types import JSONObject, JSONValue
from tenants.principal import Principal

TEXT_LENGTH = 8000


@dataclass(frozen=True, slots=True, kw_only=True)
class InputView:
    """One question; texts and schema are the server's own."""

    id: uuid.UUID
    server: str
    call_id: uuid.UUID | None
    kind: InputKind
    state: InputState
    params: JSONObject
    error: JSONObject | None
    is_consented: bool
    created_at: datetime
    expires_at: datetime

    @property
    def wire(self) -> JSONObject:
        """The elicitation of the API: react-mcp's members, and the hub's own."""
        message = self.params.get("message")
        url = self.params.get("url") if self.kind is InputKind.URL else None
        return {
            "id": str(self.id),
            "server": self.server,
            "callId": str(self.call_id) if self.call_id else None,
            "kind": self.kind.value,
            "state": self.state.value,
            "message": message[:TEXT_LENGTH] if isinstance(message, str) else "",
            "requestedSchema": self.params.get("requestedSchema"),
            "url": url,
            "host": _host_of(url),
            "params": self.params if self.kind in {InputKind.SAMPLING, InputKind.ROOTS} else None,
            "error": self.error,
            "isConsented": self.is_consented,
            "createdAt": self.created_at.isoformat(),
            "expiresAt": self.expires_at.isoformat(),
        }

    @property
    def told(self) -> JSONObject:
        """As `wire`, for events, which travel through Redis: addresses and prompts stay here."""
        return {**self.wire, "url": None, "params": None}


def inputs_for(
    principal: Principal, *, server: str | None = None, call_id: uuid.UUID | None = None
) -> list[InputView]:
    """Return the open questions, oldest first; two queries."""
    rows = _open(principal)
    if server is not None:
        rows = rows.filter(connection__slug=server)
    if call_id is not None:
        rows = rows.filter(call_id=call_id)
    return [input_view(row) for row in rows]


def open_inputs_of_call(principal: Principal, call_id: uuid.UUID) -> list[InputRequest]:
    """Return the open questions that a call waits for, oldest first; one query."""
    return list(_open(principal).filter(call_id=call_id))


def input_for(
    principal: Principal, input_id: uuid.UUID, *, call_id: uuid.UUID | None = None
) -> InputRequest:
    """Return one question, open or not. Raises NotFoundError."""
    rows = _own(principal).filter(pk=input_id)
    if call_id is not None:
        rows = rows.filter(call_id=call_id)
    row = rows.first()
    if row is None:
        raise NotFoundError
    return row


def pending_of(
    principal: Principal, connection_ids: Collection[uuid.UUID]
) -> dict[uuid.UUID, tuple[InputView, ...]]:
    """Return the open questions by connection; the ids come from the tenant gate. One query."""
    found: dict[uuid.UUID, list[InputView]] = defaultdict(list)
    rows = InputRequest.objects.of(principal).filter(
        member_id=principal.member_id,
        connection_id__in=list(connection_ids),
        state=InputState.OPEN,
        expires_at__gt=clock.now(),
    )
    for row in rows.select_related("connection").order_by("id"):
        found[row.connection_id].append(input_view(row))
    return {pk: tuple(views) for pk, views in found.items()}


def input_view(row: InputRequest) -> InputView:
    """Return the picture of a question; one that cannot be unsealed spoils no other's."""
    try:
        params = open_json(row, "sealed_params").get("params")
    except CredentialUnreadableError:
        params = None
    return InputView(
        id=row.pk,
        server=row.connection.slug,
        call_id=row.call_id,
        kind=InputKind(row.kind),
        state=InputState(row.state),
        params=params if isinstance(params, dict) else {},
        error=row.error,
        is_consented=row.is_consented,
        created_at=row.created_at,
        expires_at=row.expires_at,
    )


def _own(principal: Principal) -> QuerySet[InputRequest]:
    rows = InputRequest.objects.of(principal).filter(member_id=principal.member_id)
    return rows.filter(connection_id__in=rows_for(principal).values("pk")).select_related(
        "connection"
    )


def _open(principal: Principal) -> QuerySet[InputRequest]:
    rows = _own(principal).filter(state=InputState.OPEN, expires_at__gt=clock.now())
    return rows.order_by("id")


def _host_of(url: JSONValue) -> str | None:
    """Return the host as a browser would look it up, so that look-alikes show (O16)."""
    if not isinstance(url, str):
        return None
    host = urlsplit(url).hostname or ""
    try:
        return host.encode("idna").decode() if not host.isascii() else host
    except UnicodeError:
        return host.encode("ascii", "backslashreplace").decode()
