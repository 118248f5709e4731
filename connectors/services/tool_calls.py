"""Tool calls, the web side: submit, wait, cancel. The worker side is execution.py.

Accepted means committed: a call that `submit` returns ends in a terminal state even if the worker,
Redis or this process dies right after.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

from django.conf import settings
from django.db import DatabaseError
from django.db.models import Q
from mcp_types import LOG_LEVEL_META_KEY

from connectors import events, selectors
from connectors.models import CallStatus, ToolCall
from connectors.models.tool_call import OPEN_STATUSES
from connectors.queue import (
    EntryKind,
    LaneEntry,
    choose_worker,
    lane_writer,
    live_workers,
    ring,
)
from connectors.selectors import ConnectionView
from connectors.server_spec import Era
from connectors.services import input_store, ledger, outcomes, quotas, relays, replies
from connectors.services.ledger import Inserted, NewCall
from connectors.services.outcomes import CallOutcome, outcome_of
from connectors.services.relays import RelayTerms
from connectors.states import State
from mcphub.core import ids
from mcphub.core.clock import now
from mcphub.core.errors import (
    AuthorizationNeededError,
    ConflictError,
    FieldProblem,
    HubError,
    InvalidInputError,
    UnavailableError,
)
from mcphub.core.offload import DatabaseThreads
from mcphub.core.patience import database_patience
from mcphub.core.types import JSONObject
from tenants.principal import Principal, Scope

__all__ = [
    "CallOutcome",
    "CallRequest",
    "RelayTerms",
    "Submitted",
    "cancel",
    "follow",
    "forget",
    "outcome_of",
    "submit",
    "submit_many",
    "wait",
]

LARGE_BYTES = 256 << 10
TARGET_LENGTH = 2000
KEY_LENGTH = 255
KEY_LIFETIME = timedelta(hours=24)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest:
    """One request to make of a server; `timeout` in seconds, None: the server's own.

    `body_hash` stands for the request's body where an idempotency key is given.
    """

    method: str
    target: str
    params: JSONObject
    timeout: float | None = None
    idempotency_key: str | None = None
    body_hash: str = ""
    relay: RelayTerms | None = None
    """Set for a downstream client of the gateway; goes with `will_wait`."""
    will_wait: bool = True
    """False: nobody is going to `wait` in this process, so no reply has to travel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """An accepted call; `is_replayed`: it is an earlier one with the same idempotency key."""

    id: uuid.UUID
    is_replayed: bool = False


async def submit(
    principal: Principal, connection: ConnectionView, request: CallRequest
) -> Submitted:
    """Commit a call and ring the worker that holds the session.

    Raises ConflictError (`not_connected`, `idempotency_in_flight`), AuthorizationNeededError,
    InvalidInputError (`idempotency_mismatch`, `arguments_too_large`), LimitError; UnavailableError
    within a second, and before anything is stored, when Redis or every worker is away.
    """
    principal.require(Scope.TOOLS_CALL)
    _check_usable(connection)
    worker = await _address(connection)
    call = await _new_call(principal, connection, request)
    replayed = await _accepted(call, _place(call, worker))
    if replayed is not None:
        return replayed
    entry = LaneEntry(kind=EntryKind.CALL, id=call.id, connection_id=connection.id)
    lane_writer().ring(worker, entry)
    return Submitted(id=call.id)


async def submit_many(
    principal: Principal, calls: Sequence[tuple[ConnectionView, CallRequest]]
) -> list[Submitted | HubError]:
    """Submit calls to any servers at once; each has its own answer, never all or nothing."""
    return list(await asyncio.gather(*(_submit_one(principal, *call) for call in calls)))


async def wait(
    call_id: uuid.UUID, seconds: float, *, past_questions: bool = False
) -> CallOutcome | None:
    """Return how a call ended, or None when `seconds` are over; no thread waits along.

    A call whose server waits for an answer comes back as `input_required` without an outcome,
    unless `past_questions`.

    The caller has passed the tenant gate: it submitted the call, or `selectors.call_for` found it.
    """
    return await replies.current().wait(call_id, seconds, past_questions=past_questions)


async def follow(call_id: uuid.UUID, relay: RelayTerms) -> None:
    """Be told in this process what the server of an open call says from now on.

    For a call that another request submitted, before its question is answered. The caller has
    passed the tenant gate. Raises UnavailableError.
    """
    await replies.current().follow(call_id, relay)


def forget(call_id: uuid.UUID) -> None:
    """Hear no more of a call in this process: its client is gone."""
    replies.current().forget(call_id)


def cancel(principal: Principal, call_id: uuid.UUID) -> ToolCall:
    """Ask for the end of a call and return it as it stands; an ended one is left alone.

    A call that nobody holds (queued, or parked without a session) is cancelled here; one that a
    worker has, by the worker. Raises NotFoundError.
    """
    row = selectors.call_for(principal, call_id)
    is_free = Q(status=CallStatus.QUEUED) | Q(status=CallStatus.INPUT_REQUIRED, worker="")
    queued = ToolCall.unscoped.filter(is_free, pk=row.pk)
    if queued.update(status=CallStatus.CANCELLED, finished_at=now(), problem_code="cancelled"):
        input_store.close_of_call(row.pk)
        row = selectors.call_for(principal, call_id)
        announce_end(row)
        return row
    held = ToolCall.unscoped.filter(pk=row.pk, status__in=OPEN_STATUSES)
    held.update(is_cancel_requested=True)
    row = selectors.call_for(principal, call_id)
    if outcomes.is_open(row.status) and row.worker:
        entry = LaneEntry(kind=EntryKind.CANCEL, id=row.pk, connection_id=row.connection_id)
        ring(row.worker, entry)
    return row


def announce_end(row: ToolCall) -> None:
    """Tell everybody of an end that was stored outside the worker that had the call."""
    replies.publish_now(row.reply_to, outcome_of(row))
    events.announce_call_finished(events.CallNotice.of(row))
    place = quotas.Place(
        call_id=row.pk,
        tenant_id=row.tenant_id,
        connection_id=row.connection_id,
        worker=row.worker,
    )
    quotas.give_back_now(place)


def _check_usable(connection: ConnectionView) -> None:
    if connection.state in {State.CONNECTED, State.CONNECTING}:
        return
    if connection.state in {State.AUTH_REQUIRED, State.AUTH_PENDING}:
        raise AuthorizationNeededError("The server wants the user to sign in first.")
    raise ConflictError("The server is not connected; connect it first.", code="not_connected")


async def _address(connection: ConnectionView) -> str:
    """Return the worker to ring: the holder if it takes calls, else the least busy one."""
    workers = await live_workers()
    if any(load.worker == connection.held_by and not load.is_draining for load in workers):
        return connection.held_by
    return choose_worker(workers).worker


async def _new_call(
    principal: Principal, connection: ConnectionView, request: CallRequest
) -> NewCall:
    reply_to = ""
    call_id = ids.new_uuid()
    params = json.dumps(_with_log_level(connection, request.params)).encode()
    _check_sizes(params, request)
    relay = relays.stored(request.relay)
    seconds = min(request.timeout or connection.call_timeout, settings.CALL_TIMEOUT_MAX)
    if request.will_wait:
        await replies.current().start()
        replies.current().expect(call_id, request.relay)
        reply_to = replies.current().address
    created_at = now()
    return NewCall(
        id=call_id,
        tenant_id=principal.tenant_id,
        member_id=principal.member_id,
        connection_id=connection.id,
        server=connection.slug,
        method=request.method,
        target=request.target,
        sealed_params=await _sealed(call_id, params),
        timeout_ms=round(seconds * 1000),
        created_at=created_at,
        deadline_at=created_at + timedelta(seconds=seconds),
        reply_to=reply_to,
        idempotency_key=request.idempotency_key,
        body_hash=_hash(connection, request) if request.idempotency_key else "",
        relay=relay,
    )


async def _accepted(call: NewCall, place: quotas.Place) -> Submitted | None:
    """Take a place and commit the call; return the earlier call with its key instead, if any."""
    earlier = None
    is_new = False
    try:
        await quotas.reserve(place, call.deadline_at)
        try:
            earlier = await _insert(call)
            is_new = earlier is None
        finally:
            if not is_new:
                quotas.give_back(place)
    finally:
        if not is_new and call.reply_to:
            replies.current().forget(call.id)
    return earlier


def _with_log_level(connection: ConnectionView, params: JSONObject) -> JSONObject:
    """Say in each request of the modern era how much the server is to log, unless it says so."""
    meta = params.get("_meta", {})
    if not connection.log_level or connection.era != Era.MODERN or not isinstance(meta, dict):
        return params
    return {**params, "_meta": {LOG_LEVEL_META_KEY: connection.log_level, **meta}}


def _check_sizes(params: bytes, request: CallRequest) -> None:
    if len(params) > settings.MAX_ARGUMENT_BYTES:
        raise InvalidInputError("The arguments are too large.", code="arguments_too_large")
    if len(request.target) > TARGET_LENGTH:
        raise InvalidInputError("The name or URI is too long.", code="target_too_long")
    if request.idempotency_key is not None and not 0 < len(request.idempotency_key) <= KEY_LENGTH:
        problem = FieldProblem(path="/Idempotency-Key", message="1 to 255 characters")
        raise InvalidInputError("The idempotency key cannot be used.", problems=[problem])


async def _sealed(call_id: uuid.UUID, params: bytes) -> bytes:
    if len(params) < LARGE_BYTES:
        return outcomes.seal_params(call_id, params)
    return await asyncio.to_thread(outcomes.seal_params, call_id, params)


def _hash(connection: ConnectionView, request: CallRequest) -> str:
    parts = (connection.id.hex, request.method, request.target, request.body_hash)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _place(call: NewCall, worker: str) -> quotas.Place:
    return quotas.Place(
        call_id=call.id,
        tenant_id=call.tenant_id,
        connection_id=call.connection_id,
        worker=worker,
    )


async def _submit_one(
    principal: Principal, connection: ConnectionView, request: CallRequest
) -> Submitted | HubError:
    try:
        return await submit(principal, connection, request)
    except HubError as exc:
        return exc


# --- idempotency ------------------------------------------------------------------------------


async def _insert(call: NewCall) -> Submitted | None:
    """Commit a call; return the earlier one instead when its idempotency key is taken."""
    if await _stored_soon(call) is Inserted.NEW:
        return None
    try:
        earlier = await _lookups().run(_earlier, call)
    except DatabaseError as exc:
        raise UnavailableError("The database is away.", retry_after=1.0) from exc
    if earlier is None:  # the key was older than its lifetime and is free now
        if await ledger.insert(call) is Inserted.NEW:
            return None
        raise ConflictError("A call with this key is running.", code="idempotency_in_flight")
    if earlier.body_hash != call.body_hash:
        raise InvalidInputError(
            "This idempotency key was used for another request.", code="idempotency_mismatch"
        )
    if outcomes.is_open(earlier.status):
        raise ConflictError(
            "A call with this key is running.",
            code="idempotency_in_flight",
            retry_after=1.0,
            extra={"callId": str(earlier.pk)},
        )
    return Submitted(id=earlier.pk, is_replayed=True)


async def _stored_soon(call: NewCall) -> Inserted:
    """Insert, or take the call back for certain when the database is too slow to say so."""
    storing = asyncio.ensure_future(ledger.insert(call))
    try:
        async with database_patience():
            await asyncio.wait({storing})
    except UnavailableError:
        withdrawing = asyncio.get_running_loop().create_task(_withdraw(storing, call))
        _withdrawing.add(withdrawing)
        withdrawing.add_done_callback(_withdrawing.discard)
        raise
    return storing.result()


_withdrawing: set[asyncio.Task[None]] = set()


async def _withdraw(storing: asyncio.Future[Inserted], call: NewCall) -> None:
    """End a call that nobody was told of, before the reaper would ring for it."""
    try:
        if await storing is Inserted.NEW:
            await _lookups().run(_take_back, call)
    except (DatabaseError, HubError):
        logger.warning("call not taken back call=%s", call.id)


def _take_back(call: NewCall) -> None:
    queued = ToolCall.unscoped.filter(pk=call.id, status=CallStatus.QUEUED)
    queued.update(status=CallStatus.CANCELLED, finished_at=now(), problem_code="unavailable")


def _earlier(call: NewCall) -> ToolCall | None:
    """Return the call that has the key of `call`; a key past its lifetime is freed instead."""
    rows = ToolCall.unscoped.filter(
        tenant_id=call.tenant_id, member_id=call.member_id, idempotency_key=call.idempotency_key
    )
    limit: datetime = call.created_at - KEY_LIFETIME
    rows.filter(created_at__lt=limit).update(idempotency_key=None)
    row = rows.only("id", "status", "body_hash").first()
    if row is None and call.idempotency_key is None:
        raise UnavailableError("The call could not be stored.")
    return row


@lru_cache(maxsize=1)
def _lookups() -> DatabaseThreads:
    return DatabaseThreads(name="tool-calls", threads=2)


def close() -> None:
    """End the threads of this module and of what it uses, with their database connections."""
    ledger.close()
    quotas.close()
    if _lookups.cache_info().currsize:
        _lookups().close()
        _lookups.cache_clear()
