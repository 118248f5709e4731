"""Runs: one call in a worker's hands, what it needs of sessions, and what its exchange came to."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from dataclasses import dataclass
from typing import Protocol

from connectors.models import CallStatus
from connectors.queue import LaneEntry
from connectors.services import endings, input_rounds
from connectors.services.call_notes import CallNotes
from connectors.services.endings import Again, Ending
from connectors.services.input_rounds import Round
from connectors.services.ledger import Claimed
from connectors.upstream.contract import StreamPosition, UpstreamRequest
from mcphub.core.errors import HubError, ProtocolError, UpstreamTimeoutError
from mcphub.core.types import JSONObject

logger = logging.getLogger(__name__)


class Sessions(Protocol):
    """What the executor needs of the worker's sessions."""

    worker: str

    def is_open(self, connection_id: uuid.UUID) -> bool: ...

    async def ensure_open(self, connection_id: uuid.UUID) -> None:
        """Raise the HubError that prevents it; HeldElsewhereError when another worker has it."""

    async def request(self, connection_id: uuid.UUID, request: UpstreamRequest) -> JSONObject: ...

    def declared(self, connection_id: uuid.UUID, relay: JSONObject | None) -> JSONObject:
        """Return what the server of a call may ask."""
        ...


@dataclass(slots=True, kw_only=True)
class Counts:
    """What the executor has done since it started."""

    claimed: int = 0
    duplicates: int = 0
    finished: int = 0
    outrun: int = 0
    """Ends that did not count, since somebody else had the row."""


@dataclass(slots=True, eq=False)
class Run:
    """One call in this worker's hands."""

    entry: LaneEntry
    task: asyncio.Task[None] | None = None
    exchange: asyncio.Task[JSONObject] | None = None
    has_begun: bool = False
    is_cancelled: bool = False
    is_stopped: bool = False
    is_left: bool = False
    position: StreamPosition | None = None
    """From where another holder of the session can ask for the rest of the answer."""
    is_expired: bool = False
    """A question of the server was not answered in time."""
    noted_at: float = 0.0
    position_noted_at: float = float("-inf")
    progress: JSONObject | None = None
    reply_to: str = ""
    notes: CallNotes | None = None
    """Set while somebody is told what the server says during the call."""
    _asking: int = 0
    _asking_since: float = 0.0
    _asked_seconds: float = 0.0

    def move(self, reply_to: str) -> None:
        self.reply_to = reply_to
        if self.notes is not None:
            self.notes.reply_to = reply_to

    def stop(self) -> None:
        if self.exchange is not None:
            self.exchange.cancel()

    def give_up(self) -> None:
        """End the exchange because its worker ends."""
        self.is_stopped = True
        self.stop()

    def leave(self) -> None:
        """Leave the answer to whoever holds the session next, if its stream can be resumed."""
        if self.position is not None and not (self.is_asking or self.is_cancelled):
            self.is_left = True
            self.stop()

    @property
    def is_asking(self) -> bool:
        """Whether the server waits for somebody's answer."""
        return self._asking > 0

    def pause(self) -> None:
        """Stop the clock of the call: its server waits for an answer. Pauses nest."""
        self._asking += 1
        if self._asking == 1:
            self._asking_since = time.monotonic()

    def go_on(self) -> None:
        self._asking -= 1
        if not self._asking:
            self._asked_seconds += time.monotonic() - self._asking_since

    @property
    def asked_seconds(self) -> float:
        """How long the server has waited for answers, which is not the call's time."""
        now = time.monotonic() - self._asking_since if self._asking else 0.0
        return self._asked_seconds + now


class WithdrawnError(HubError):
    """The row was taken back, or its cancellation asked for, while its session was opening."""

    code = "cancelled"


def verdict(run: Run, call: Claimed, declared: JSONObject) -> Ending | Again | Round:
    """Say what became of the exchange, which is over or would not end."""
    exchange = run.exchange
    if run.is_expired:
        return endings.unanswered()
    if exchange is None or not exchange.done() or exchange.cancelled():
        return _stopped(run)
    error = exchange.exception()
    try:
        if error is None:
            result = exchange.result()
            found = input_rounds.read_result(result, call.method, declared, call.rounds)
            return found or endings.of_result(result)
        if isinstance(error, ProtocolError) and run.has_begun:
            found = input_rounds.read_error(error, declared, call.rounds)
            return found or _failed(run, call, error)
    except HubError as exc:
        return endings.of_problem(CallStatus.FAILED, exc)
    return _failed(run, call, error)


def of_resumed(found: Ending | Again | Round) -> Ending | Again | Round:
    """Correct what is said of a call that an earlier worker had sent: it had left."""
    if not isinstance(found, Ending) or found.was_sent:
        return found
    is_cancelled = found.status is CallStatus.CANCELLED
    return endings.cancelled(was_sent=True) if is_cancelled else endings.unknown()


def _stopped(run: Run) -> Ending | Again:
    """Say what a call comes to whose exchange was ended from here, or with its session."""
    if run.is_cancelled:
        return endings.cancelled(was_sent=run.has_begun)
    if not run.has_begun or run.is_left:
        return Again()
    return endings.unknown("outcome_unknown" if run.is_stopped else "timeout")


def _failed(run: Run, call: Claimed, error: BaseException) -> Ending | Again:
    if isinstance(error, WithdrawnError):
        return endings.cancelled(was_sent=False)
    if isinstance(error, UpstreamTimeoutError) and not run.has_begun:
        return endings.expired()
    if isinstance(error, HubError):
        # Neither a round of questions nor the worker that first sent it is an attempt that failed.
        attempt = call.attempt - call.rounds - (call.stream is not None)
        return endings.of_error(error, method=call.method, attempt=attempt, had_begun=run.has_begun)
    logger.error("exchange failed call=%s", call.id, exc_info=error)
    if run.has_begun:
        return endings.unknown("internal_error")
    return endings.of_problem(CallStatus.FAILED, HubError(), was_sent=False)
