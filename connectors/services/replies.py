"""Replies: the one subscriber of a web process, and the calls that its requests wait for.

No thread per waiter. A lost reply only delays: what is waited for is looked up in the ledger every
two seconds and after every loss of the subscription.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import time
import uuid
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db import DatabaseError
from redis.exceptions import RedisError

from connectors.models import CallStatus, ToolCall
from connectors.models.tool_call import OPEN_STATUSES
from connectors.queue.lanes import sync_client
from connectors.services import call_notes
from connectors.services.call_notes import Batch, NoteReader
from connectors.services.outcomes import CallOutcome, Reply, outcome_of, reply_channel
from connectors.services.relays import RelayTerms
from mcphub.core.errors import HubError, UnavailableError
from mcphub.core.offload import DatabaseThreads
from mcphub.core.per_loop import PerLoop
from mcphub.core.pubsub import Subscription

RECHECK_SECONDS = 2.0
FOREIGN_RECHECK_SECONDS = 0.5
UNCLAIMED_SECONDS = 60.0
READ_ROWS = 200

MOVING = [status for status in OPEN_STATUSES if status != CallStatus.INPUT_REQUIRED]

logger = logging.getLogger(__name__)


def publish_command(reply_to: str, outcome: CallOutcome) -> tuple[Any, ...]:
    return ("PUBLISH", reply_channel(reply_to), Reply(outcome=outcome).encode())


def publish_now(reply_to: str, outcome: CallOutcome) -> None:
    """Tell who waits, from synchronous code; a lost reply is found in the ledger two seconds on."""
    if not reply_to:
        return
    try:
        sync_client().publish(reply_channel(reply_to), Reply(outcome=outcome).encode())
    except (RedisError, OSError):
        logger.warning("reply not published call=%s", outcome.id)


def read_ended(ids: Sequence[uuid.UUID]) -> list[CallOutcome]:
    """Return the outcomes of those calls that have ended or wait for answers; one query."""
    rows = ToolCall.unscoped.filter(pk__in=ids).exclude(status__in=MOVING)
    return [_readable(row) for row in rows.defer("sealed_params")]


def _readable(row: ToolCall) -> CallOutcome:
    """Return a row's outcome; one that cannot be unsealed says so and spoils no other's."""
    try:
        return outcome_of(row)
    except HubError as exc:
        return CallOutcome(
            id=row.pk,
            status=CallStatus(row.status),
            problem_code=exc.problem_code,
            problem_detail=exc.detail,
        )


def _readdress(call_id: uuid.UUID, reply_to: str) -> None:
    ToolCall.unscoped.filter(pk=call_id, status__in=OPEN_STATUSES).update(reply_to=reply_to)


@dataclass(slots=True, eq=False)
class _Expected:
    """A call that somebody waits for or is about to."""

    future: asyncio.Future[CallOutcome]
    parked: asyncio.Future[CallOutcome]
    """Done when the call waits for answers; it may go on afterwards."""
    until: float
    is_foreign: bool
    """Submitted by another process or earlier: no reply will come here, the ledger tells."""
    notes: NoteReader | None = None
    waiters: int = 0
    since: float = field(default_factory=time.monotonic)


@dataclass(frozen=True, slots=True, eq=False)
class Rounds:
    """What `Replies.rounds` yields."""

    _expected: _Expected

    async def next(self, seconds: float) -> CallOutcome | None:
        """Return the end of the call, or that it waits for answers; None when `seconds` are over.

        A call that still waits is told again from time to time: look at its questions.
        """
        expected = self._expected
        awaited = {expected.future, expected.parked}
        await asyncio.wait(awaited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if expected.future.done():
            return expected.future.result()
        if not expected.parked.done():
            return None
        outcome = expected.parked.result()
        expected.parked = asyncio.get_running_loop().create_future()
        return outcome


class Replies:
    """One per event loop; `current` returns the running loop's."""

    def __init__(self) -> None:
        self.address = f"{socket.gethostname()[:30]}-{os.getpid()}-{secrets.token_hex(4)}"
        self._expected: dict[uuid.UUID, _Expected] = {}
        self._is_due = asyncio.Event()
        self._subscription = Subscription(
            reply_channel(self.address),
            on_message=self._on_message,
            on_gap=self._is_due.set,  # what was published while nobody listened is in the ledger
        )
        self._checker: asyncio.Task[None] | None = None
        self._loads: set[asyncio.Task[None]] = set()
        self._threads = DatabaseThreads(name="replies", threads=2)

    async def start(self) -> None:
        """Return when replies can arrive. Raises UnavailableError within a second."""
        await self._subscription.start()

    def expect(self, call_id: uuid.UUID, relay: RelayTerms | None = None) -> None:
        """Keep the reply of a call that is about to be submitted until somebody waits for it.

        What its server says in between is told as `relay` wishes, until the reply is there.
        """
        known = self._expected.get(call_id)
        expected = known or self._add(call_id, is_foreign=False)
        if relay is None or relay.on_notification is None:
            return
        if expected.notes is None:
            expected.notes = NoteReader(relay)
        expected.notes.terms = relay

    async def follow(self, call_id: uuid.UUID, relay: RelayTerms) -> None:
        """Take over as who hears of an open call. Raises UnavailableError."""
        await self.start()
        self.expect(call_id, relay)
        try:
            await self._threads.run(_readdress, call_id, self.address)
        except DatabaseError as exc:
            self.forget(call_id)
            raise UnavailableError("The database is away.", retry_after=1.0) from exc

    def forget(self, call_id: uuid.UUID) -> None:
        self._expected.pop(call_id, None)

    async def wait(
        self, call_id: uuid.UUID, seconds: float, *, past_questions: bool = False
    ) -> CallOutcome | None:
        """Return how a call ended, or None when `seconds` are over. Any process, any time.

        A call that waits for answers is returned as that, unless `past_questions`; what its
        server says goes on being told as it was expected.
        """
        with self._awaited(call_id) as expected:
            awaited = {expected.future} if past_questions else {expected.future, expected.parked}
            await asyncio.wait(awaited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            done = [each for each in (expected.future, expected.parked) if each.done()]
            return done[0].result() if done and done[0] in awaited else None

    @contextlib.contextmanager
    def rounds(self, call_id: uuid.UUID) -> Iterator[Rounds]:
        """See a call through its questions to its end, without a gap in between.

        The caller has passed the tenant gate.
        """
        with self._awaited(call_id) as expected:
            yield Rounds(expected)

    @contextlib.contextmanager
    def _awaited(self, call_id: uuid.UUID) -> Iterator[_Expected]:
        expected = self._expected.get(call_id) or self._add(call_id, is_foreign=True)
        expected.waiters += 1
        try:
            yield expected
        finally:
            expected.waiters -= 1
            goes_on = expected.notes is not None and not expected.future.done()
            if not expected.waiters and not goes_on and self._expected.get(call_id) is expected:
                del self._expected[call_id]

    async def aclose(self) -> None:
        """End the tasks and threads; who still waits is left to its own time limit."""
        await self._subscription.aclose()
        tasks = [task for task in (self._checker, *self._loads) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(self._threads.close)

    def _add(self, call_id: uuid.UUID, *, is_foreign: bool) -> _Expected:
        loop = asyncio.get_running_loop()
        until = time.monotonic() + settings.CALL_TIMEOUT_MAX + UNCLAIMED_SECONDS
        expected = _Expected(
            future=loop.create_future(),
            parked=loop.create_future(),
            until=until,
            is_foreign=is_foreign,
        )
        self._expected[call_id] = expected
        if is_foreign:
            self._is_due.set()
        if self._checker is None or self._checker.done():
            self._checker = loop.create_task(self._recheck())
        return expected

    def _settle(self, outcome: CallOutcome) -> None:
        expected = self._expected.get(outcome.id)
        if expected is None:
            return
        is_parked = outcome.status is CallStatus.INPUT_REQUIRED
        future = expected.parked if is_parked else expected.future
        if not future.done():
            future.set_result(outcome)

    # --- what is published -----------------------------------------------------------------------

    def _on_message(self, data: bytes) -> None:
        if data.startswith(call_notes.MARK):
            self._on_notes(data)
            return
        try:
            reply = Reply.decode(data)
        except (ValueError, KeyError):
            logger.warning("reply unreadable length=%d", len(data))
            return
        if not reply.is_in_row:
            self._settle(reply.outcome)
        elif reply.outcome.id in self._expected:
            self._spawn(self._load([reply.outcome.id]))

    def _on_notes(self, data: bytes) -> None:
        try:
            batch = Batch.decode(data)
        except (ValueError, KeyError):
            logger.warning("notes unreadable length=%d", len(data))
            return
        expected = self._expected.get(batch.call_id)
        if expected is not None and expected.notes is not None and not expected.future.done():
            expected.notes.take(batch)

    # --- the ledger -----------------------------------------------------------------------------

    async def _recheck(self) -> None:
        """Look up what is waited for; ends when nothing is."""
        while self._expected:
            has_foreign = any(expected.is_foreign for expected in self._expected.values())
            pause = FOREIGN_RECHECK_SECONDS if has_foreign else RECHECK_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._is_due.wait()
            self._is_due.clear()
            self._drop_unclaimed()
            open_ids = [i for i, each in self._expected.items() if not each.future.done()]
            for start in range(0, len(open_ids), READ_ROWS):
                await self._load(open_ids[start : start + READ_ROWS])

    async def _load(self, ids: Sequence[uuid.UUID]) -> None:
        try:
            outcomes: Iterable[CallOutcome] = await self._threads.run(read_ended, ids)
        except DatabaseError:
            logger.warning("ledger away, %d calls looked up later", len(ids))
            return
        for outcome in outcomes:
            self._settle(outcome)

    def _drop_unclaimed(self) -> None:
        """Forget calls that nobody came back for."""
        now = time.monotonic()
        for call_id, expected in list(self._expected.items()):
            is_old = expected.future.done() and now - expected.since > UNCLAIMED_SECONDS
            if not expected.waiters and (is_old or now > expected.until):
                del self._expected[call_id]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._loads.add(task)
        task.add_done_callback(self._loads.discard)


current: PerLoop[Replies] = PerLoop(Replies)
