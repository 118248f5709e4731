"""Leases: which worker holds a connection's session, by compare-and-set on (`held_by`, `epoch`).

Worker side, synchronous. Everything a worker writes carries its epoch, so that what a zombie still
sends is refused.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.db import transaction

from connectors import definitions, selectors
from connectors.models import Connection, Connector, CustomServer
from connectors.models.sealed import seal_json
from connectors.server_spec import ServerSpec, Transport
from connectors.services import catalog, faults
from connectors.services.catalog import FetchedList
from connectors.services.timeline import Step
from connectors.services.transitions import Fence, transition
from connectors.states import State, backoff
from connectors.upstream.session import Opened
from mcphub.core import clock
from mcphub.core.errors import AuthorizationNeededError, HubError, UnavailableError
from mcphub.core.types import JSONObject
from tracing.secrets import NO_SECRETS, KnownSecrets


class StdioDisabledError(HubError):
    code = "stdio_disabled"
    status = 409
    title = "Programs are not started here"


class QuarantinedError(HubError):
    code = "connection_quarantined"
    status = 503
    title = "Opening the connection ended the worker again and again"


CRASH_ATTEMPTS = 3
"""A worker that dies while it opens a connection counts as so many failed attempts of it."""
CLAIM_TRIES = 3
OPENABLE = (State.CONNECTING, State.CONNECTED)
WAITING = (State.AUTH_REQUIRED, State.AUTH_PENDING)
LARGEST_INFO = 32 << 10
HANDED_AT_ONCE = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One connection in this worker's hands."""

    connection_id: uuid.UUID
    fence: Fence
    auto_reconnect: bool
    attempt: int
    server: tuple[type[Connector | CustomServer], uuid.UUID]
    spec: ServerSpec | None = None
    log_level: str = ""

    @property
    def secrets(self) -> KnownSecrets:
        """What is hidden in everything that is kept of the server."""
        return NO_SECRETS if self.spec is None else selectors.kept_secrets(self.spec)

    """What the server may repeat and nobody may store in clear."""


class Outcome(StrEnum):
    """How a claim ended."""

    TAKEN = "taken"
    HERE = "here"
    ELSEWHERE = "elsewhere"
    UNWANTED = "unwanted"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """`lease` and `spec` when taken (`fault` instead of `spec` if its secrets cannot be read).

    `fault` of an unwanted one says why a session cannot be opened now, where that is known.
    """

    outcome: Outcome
    holder: str = ""
    lease: Lease | None = None
    spec: ServerSpec | None = None
    fault: HubError | None = None

    def spec_or_raise(self) -> ServerSpec:
        """Return the spec. Raises the HubError that its secrets caused."""
        if self.spec is None:
            raise self.fault or UnavailableError
        return self.spec


def claim(
    connection_id: uuid.UUID,
    worker: str,
    *,
    is_alive: Callable[[str], bool],
    open_epoch: int | None = None,
) -> Claim:
    """Take a connection for `worker` under a new epoch, unless somebody alive holds it.

    `open_epoch` is that of the session which `worker` has open. A connection that is stored as
    connected without one is moved to `connecting`. Raises UnavailableError without Redis.
    """
    for _ in range(CLAIM_TRIES):  # who loses a race looks again: by then it is known who won
        found = _claim_once(connection_id, worker, is_alive=is_alive, open_epoch=open_epoch)
        if found.outcome is not Outcome.LOST:
            break
    return found


def _claim_once(
    connection_id: uuid.UUID,
    worker: str,
    *,
    is_alive: Callable[[str], bool],
    open_epoch: int | None,
) -> Claim:
    row = (
        Connection.unscoped.select_related("connector", "custom_server")
        .filter(pk=connection_id)
        .first()
    )
    if row is None or not row.is_wanted or State(row.state) not in OPENABLE:
        needs_person = row is not None and row.is_wanted and State(row.state) in WAITING
        fault = AuthorizationNeededError() if needs_person else None
        return Claim(outcome=Outcome.UNWANTED, fault=fault)
    if row.held_by not in {"", worker} and is_alive(row.held_by):
        return Claim(outcome=Outcome.ELSEWHERE, holder=row.held_by)
    is_connected = row.state == State.CONNECTED.value
    if is_connected and row.held_by == worker and row.epoch == open_epoch:
        return Claim(outcome=Outcome.HERE)
    fence = Fence(worker=worker, epoch=row.epoch + 1)
    rows = Connection.unscoped.filter(
        pk=row.pk, held_by=row.held_by, epoch=row.epoch, is_wanted=True, state=row.state
    )
    with transaction.atomic():
        if not rows.update(held_by=worker, epoch=fence.epoch, next_retry_at=None):
            return Claim(outcome=Outcome.LOST)
        if is_connected:
            transition(row.pk, State.CONNECTING, expect=[State.CONNECTED], fence=fence)
    return _taken(row, fence)


def _taken(row: Connection, fence: Fence) -> Claim:
    server = selectors.server_of(row)
    lease = Lease(
        connection_id=row.pk,
        fence=fence,
        auto_reconnect=server.auto_reconnect,
        attempt=row.attempt,
        server=(type(server), server.pk),
        log_level=row.log_level,
    )
    try:
        spec = selectors.spec_for(row)
    except HubError as exc:
        return Claim(outcome=Outcome.TAKEN, lease=lease, fault=exc)
    lease = replace(lease, spec=spec)
    if spec.transport is Transport.STDIO and not settings.STDIO_ENABLED:
        return Claim(outcome=Outcome.TAKEN, lease=lease, fault=StdioDisabledError())
    return Claim(outcome=Outcome.TAKEN, lease=lease, spec=spec)


def record_open(
    lease: Lease, opened: Opened, lists: Sequence[FetchedList], steps: Sequence[Step]
) -> bool:
    """Store what opening found, move to `connected`; False when the lease or the wish is gone."""
    with transaction.atomic():
        is_moved = transition(
            lease.connection_id,
            State.CONNECTED,
            expect=[State.CONNECTING],
            fence=lease.fence,
            steps=steps,
            attempt=0,
            next_retry_at=None,
            last_error=None,
            connected_at=clock.now(),
            transport_used=opened.transport.value,
            era=opened.era.value,
            protocol_version=lease.secrets.hide(opened.protocol_version)[:20],
            server_info=_bounded(opened.server_info, lease.secrets),
            capabilities=_bounded(opened.capabilities, lease.secrets),
            instructions=catalog.clean_text(lease.secrets.hide(opened.instructions))[:LARGEST_INFO],
            sealed_session=_sealed(lease, opened),
        )
        if is_moved:
            catalog.store(lease.connection_id, lists, fence=lease.fence, secrets=lease.secrets)
            if opened.is_era_certain:
                remember_era(lease, opened.era.value, opened.transport.value)
    return is_moved


def record_retry(
    lease: Lease, error: HubError, at: datetime, steps: Sequence[Step]
) -> Lease | None:
    """Store that the next attempt is at `at`; the lease stays. None when it is gone."""
    is_moved = transition(
        lease.connection_id,
        State.CONNECTING,
        expect=[State.CONNECTING, State.CONNECTED],
        fence=lease.fence,
        steps=steps,
        attempt=lease.attempt + 1,
        next_retry_at=at,
        last_error=lease.secrets.hidden(faults.last_error(error)),
        connected_at=None,
        **_forgotten(error),
    )
    return with_attempt(lease, lease.attempt + 1) if is_moved else None


def record_end(lease: Lease, to: State, error: HubError, steps: Sequence[Step]) -> bool:
    """Store that opening is over (`error`, `auth_required`) and give the lease back."""
    return transition(
        lease.connection_id,
        to,
        expect=[State.CONNECTING, State.CONNECTED],
        fence=lease.fence,
        steps=steps,
        held_by="",
        next_retry_at=None,
        last_error=lease.secrets.hidden(faults.last_error(error)),
        connected_at=None,
        **_forgotten(error),
    )


def _sealed(lease: Lease, opened: Opened) -> bytes | None:
    """Return what another worker goes on with, sealed to this connection."""
    if opened.stored is None:
        return None
    row = Connection(pk=lease.connection_id)
    return seal_json(row, "sealed_session", asdict(opened.stored))


def _forgotten(error: HubError) -> dict[str, None]:
    """Return the fields that go with a session which the server does not know any more."""
    return {"sealed_session": None} if error.problem_code == "session_lost" else {}


def with_attempt(lease: Lease, attempt: int) -> Lease:
    return replace(lease, attempt=attempt)


def pass_on(lease: Lease) -> bool:
    """Give a lease back so that another worker opens the connection at the next sweep."""
    rows = Connection.unscoped.filter(
        pk=lease.connection_id, held_by=lease.fence.worker, epoch=lease.fence.epoch
    )
    return bool(rows.update(held_by="", next_retry_at=clock.now()))


def is_wanted(connection_id: uuid.UUID) -> bool:
    """Whether the member wants this connection to be open."""
    return Connection.unscoped.filter(pk=connection_id, is_wanted=True).exists()


def release(connection_id: uuid.UUID, fence: Fence) -> bool:
    """Give a lease back without a change of state."""
    rows = Connection.unscoped.filter(pk=connection_id, held_by=fence.worker, epoch=fence.epoch)
    return bool(rows.update(held_by=""))


def held_by(worker: str) -> dict[uuid.UUID, int]:
    """Return the epochs of everything that is stored as held by `worker`; one query."""
    return dict(Connection.unscoped.filter(held_by=worker).values_list("pk", "epoch"))


def hand_over(
    worker: str, *, largest: int = HANDED_AT_ONCE, is_crash: bool = True
) -> list[uuid.UUID] | None:
    """Take leases away from `worker`; return the connections that somebody has to reopen now.

    What a crashed worker was just opening may be what it crashed of: that is opened with back-off,
    and rests in `error` after the second time. One transaction for at most `largest` of them: call
    it until it returns None. The epoch moves on, so that writes of a worker that still lives
    somehow are refused.
    """
    rows = list(
        Connection.unscoped.filter(held_by=worker)
        .only("pk", "epoch", "is_wanted", "state", "attempt")
        .order_by("pk")[:largest]
    )
    if not rows:
        return None
    with transaction.atomic():
        return [row.pk for row in rows if _taken_away(row, worker, is_crash=is_crash)]


def hand_over_all(worker: str, *, is_crash: bool = True) -> list[uuid.UUID]:
    """As `hand_over`, for all of them."""
    found: list[uuid.UUID] = []
    while (ids := hand_over(worker, is_crash=is_crash)) is not None:
        found += ids
    return found


def _taken_away(row: Connection, worker: str, *, is_crash: bool) -> bool:
    """Free one lease; whether its connection has to be opened again at once."""
    fence = Fence(worker=worker, epoch=row.epoch)
    fields: dict[str, Any] = {"held_by": "", "epoch": row.epoch + 1}
    if is_crash and row.is_wanted and row.state == State.CONNECTING.value:
        _suspect(row, fence, fields)
        return False
    if row.is_wanted and transition(
        row.pk,
        State.CONNECTING,
        expect=OPENABLE,
        fence=fence,
        steps=[Step(kind="worker_lost")],
        next_retry_at=clock.now(),
        connected_at=None,
        **fields,
    ):
        return True
    Connection.unscoped.filter(pk=row.pk, held_by=worker, epoch=row.epoch).update(**fields)
    return False


def _suspect(row: Connection, fence: Fence, fields: dict[str, Any]) -> None:
    """Open it later, or not again by itself."""
    attempt = row.attempt + CRASH_ATTEMPTS
    wait = backoff(attempt, 0.5)
    error = QuarantinedError()
    transition(
        row.pk,
        State.CONNECTING if wait is not None else State.ERROR,
        expect=[State.CONNECTING],
        fence=fence,
        steps=[Step(kind="worker_lost")],
        attempt=attempt,
        next_retry_at=None if wait is None else clock.now() + timedelta(seconds=wait),
        last_error=faults.last_error(error) if wait is None else None,
        connected_at=None,
        **fields,
    )


def remember_era(lease: Lease, era: str, transport: str) -> None:
    """Keep on the server's row what was detected, so that the next opening asks no more."""
    model, pk = lease.server
    rows = model.unscoped.filter(pk=pk)
    rows.exclude(detected_era=era, detected_transport=transport).update(
        detected_era=era, detected_transport=transport
    )


def _bounded(value: JSONObject, secrets: KnownSecrets) -> JSONObject:
    """Return what can be stored of a server's description of itself."""
    cleaned = catalog.storable(secrets.hidden(value))
    if not isinstance(cleaned, dict) or len(definitions.canonical(cleaned)) > LARGEST_INFO:
        return {}
    return cleaned
