"""Execution of tool calls, the worker side: claim, send, finish. Runs on the session host's loop.

One task per call owns the row from claim to finish; a child task speaks with the server, so that
cancelling the exchange never loses the end. Nothing is sent before `sent` is committed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import asdict
from functools import partial
from typing import Any

from django.conf import settings
from django.db import DatabaseError

from connectors import events
from connectors.models import CallStatus
from connectors.queue import EntryKind, LaneEntry, lane_writer, tick_pipeline
from connectors.services import (
    claimed_calls,
    endings,
    input_store,
    ledger,
    outcomes,
    progress,
    quotas,
    relays,
    replies,
    runs,
)
from connectors.services.call_notes import CallNotes
from connectors.services.endings import Again, Ending
from connectors.services.input_rounds import PAUSES, Round
from connectors.services.ledger import Claim, Claimed
from connectors.services.outcomes import CallOutcome
from connectors.services.places import Places
from connectors.services.runs import Counts, Run, Sessions
from connectors.upstream.contract import StreamPosition, UpstreamRequest
from mcphub.core.clock import Deadline, now
from mcphub.core.errors import HubError, UnavailableError, UpstreamError, UpstreamTimeoutError
from mcphub.core.offload import DatabaseThreads
from mcphub.core.types import JSONObject

GUARD_SECONDS = 2.0
"""By which the session's own deadline goes first."""
NOTE_SECONDS = 1.0
CLAIM_PAUSE = 0.5
STORE_SECONDS = 60.0
BRIEF_SECONDS = 5.0
"""In which a call may end by itself before a draining worker leaves it to another one."""
STOP_SECONDS = 3.0
FAREWELL_SECONDS = 0.5
"""Which the answer "cancel" gets on its way to a server before its call is cancelled."""

logger = logging.getLogger(__name__)


class Executor:
    """Executes the calls of one worker."""

    def __init__(self, sessions: Sessions, *, places: Places | None = None) -> None:
        self._sessions = sessions
        self._places = places or Places(
            worker=settings.WORKER_MAX_CALLS, connection=settings.CONNECTION_MAX_CALLS
        )
        self._runs: dict[uuid.UUID, Run] = {}
        self._notes: set[asyncio.Task[None]] = set()
        self._threads = DatabaseThreads(name="execution", threads=1)
        self._is_draining = self._has_ended = False
        self.counts = Counts()

    @property
    def in_flight(self) -> int:
        return len(self._runs)

    def on_entry(self, entry: LaneEntry) -> None:
        """Take a `call` or `cancel` entry of the lane; returns at once."""
        if entry.kind is EntryKind.CANCEL:
            self._cancel(entry.id)
        elif entry.kind is EntryKind.CALL:
            self._start(entry)

    # --- ParkedCalls ----------------------------------------------------------------------------

    def pause(self, call_id: uuid.UUID) -> None:
        if (run := self._runs.get(call_id)) is not None:
            run.pause()

    def go_on(self, call_id: uuid.UUID) -> None:
        if (run := self._runs.get(call_id)) is not None:
            run.go_on()

    def move(self, call_id: uuid.UUID, reply_to: str) -> None:
        """Tell another process from now on: the answer came by way of that."""
        if (run := self._runs.get(call_id)) is not None:
            run.move(reply_to)

    def expire(self, call_id: uuid.UUID) -> None:
        """End a call whose server is just being told that nobody answers."""
        run = self._runs.get(call_id)
        if run is not None:
            run.is_expired = True
            asyncio.get_running_loop().call_later(FAREWELL_SECONDS, run.stop)

    async def pick_up(self, connection_id: uuid.UUID) -> int:
        """Execute what is queued for a connection that has just been opened here."""
        if self._is_draining:
            return 0
        queued = await self._threads.run(claimed_calls.queued_of, connection_id)
        for call_id in queued:
            self._start(LaneEntry(kind=EntryKind.CALL, id=call_id, connection_id=connection_id))
        return len(queued)

    async def drain(self, seconds: float = 25.0) -> None:
        """Take nothing new, end what waits for a person, let the rest finish, then end that too.

        What takes long and can be resumed is left to the next holder of its session.
        """
        self._is_draining = True
        for run in filter(lambda run: run.is_asking, self._runs.values()):
            run.give_up()
        brief = min(seconds, BRIEF_SECONDS)
        await self.idle(brief)
        for run in self._runs.values():
            run.leave()
        await self.idle(seconds - brief)
        for run in self._runs.values():
            run.give_up()
        await self.idle(STOP_SECONDS)
        await tick_pipeline().flush()
        if not self._has_ended:
            self._has_ended = True
            await asyncio.to_thread(self._threads.close)

    async def idle(self, seconds: float) -> bool:
        """Wait until nothing runs; False when `seconds` are over before."""
        tasks = {run.task for run in self._runs.values() if run.task is not None}
        tasks |= self._notes
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        return not self._runs

    # --- one call -------------------------------------------------------------------------------

    def _start(self, entry: LaneEntry) -> None:
        if entry.id in self._runs or entry.connection_id is None:
            self.counts.duplicates += 1
            return
        if self._is_draining:
            return  # still queued: another worker gets it
        run = self._runs[entry.id] = Run(entry)
        run.task = asyncio.get_running_loop().create_task(
            self._run(run, entry.connection_id), name=f"call {entry.id}"
        )

    def _cancel(self, call_id: uuid.UUID) -> None:
        run = self._runs.get(call_id)
        if run is not None:
            run.is_cancelled = True
            run.stop()

    async def _run(self, run: Run, connection_id: uuid.UUID) -> None:
        try:
            async with self._places.take(connection_id):
                while not self._is_draining and await self._attempt(run, connection_id):
                    pass
        except HubError as exc:  # the ledger is away: the row is as it was, the reaper goes on
            logger.warning("call left to the reaper call=%s code=%s", run.entry.id, exc.code)
        except Exception:
            logger.exception("call failed call=%s", run.entry.id)
        finally:
            self._runs.pop(run.entry.id, None)

    async def _attempt(self, run: Run, connection_id: uuid.UUID) -> bool:
        """Claim the call and bring it to an end; True: it was given back and waits for another."""
        is_open = self._sessions.is_open(connection_id)
        wish = Claim(id=run.entry.id, worker=self._sessions.worker, is_open=is_open)
        call = await self._claim(wish)
        if call is None:
            self.counts.duplicates += 1
            return False
        self.counts.claimed += 1
        if call.attempt == 1:
            events.announce_call_started(claimed_calls.notice(call))
        verdict = await self._executed(run, call)
        if run.notes is not None:
            await run.notes.flush()
        if call.stream is not None:
            verdict = runs.of_resumed(verdict)
        if isinstance(verdict, Ending):
            await self._finish(run, call, verdict)
            return False
        if isinstance(verdict, Round):
            return await self._park(run, call, verdict)
        if run.is_left and not await self._keep_position(run, call):
            self.counts.outrun += 1
            return False
        return await self._give_back(call, verdict)

    async def _claim(self, wish: Claim) -> Claimed | None:
        """Claim; after a fault of the database first give back what may have been claimed unheard.

        Nobody else can: to them the call looks like one that this worker is executing.
        """
        while True:
            try:
                return await ledger.claim(wish)
            except UnavailableError:
                await self._disown(wish)

    async def _disown(self, wish: Claim) -> None:
        while True:
            await asyncio.sleep(CLAIM_PAUSE)
            try:
                await self._threads.run(claimed_calls.disown, wish.id, wish.worker)
            except DatabaseError as exc:
                if self._is_draining:
                    raise UnavailableError from exc
            else:
                return

    async def _executed(self, run: Run, call: Claimed) -> Ending | Again | Round:
        run.has_begun, run.position = False, None
        if call.is_cancel_requested or run.is_cancelled:
            return endings.cancelled(was_sent=False)
        if call.deadline_at <= now():
            return endings.expired()
        run.exchange = asyncio.get_running_loop().create_task(self._exchange(run, call))
        limit = Deadline.after(claimed_calls.longest_left(call) + GUARD_SECONDS)
        asked = run.asked_seconds
        while (
            not run.exchange.done()
            and (left := limit.at + run.asked_seconds - asked - time.monotonic()) > 0
        ):
            await asyncio.wait({run.exchange}, timeout=left)
        if not run.exchange.done():
            run.exchange.cancel()
            await asyncio.wait({run.exchange}, timeout=GUARD_SECONDS)
        try:
            return runs.verdict(run, call, self._declared(call))
        finally:
            run.exchange = None

    async def _exchange(self, run: Run, call: Claimed) -> JSONObject:
        params = outcomes.open_params(call.id, call.sealed_params)
        if call.rounds:
            params = await self._threads.run(input_store.next_params, call, params)
        if call.status == CallStatus.CLAIMED:
            await self._open(call)
            if not await ledger.mark_sent(call.fence):
                raise runs.WithdrawnError
        run.reply_to = call.reply_to
        if call.reply_to and relays.is_told(call.relay):
            run.notes = CallNotes(call, tick_pipeline())
        left = (call.deadline_at - now()).total_seconds()
        run.has_begun = True
        run.position = StreamPosition(**call.stream) if call.stream else None  # type: ignore[arg-type]  # our own JSON
        return await self._sessions.request(
            call.connection_id,
            UpstreamRequest(
                method=call.method,
                params=params,
                deadline=Deadline.after(claimed_calls.longest_left(call)),
                idle_timeout=max(0.0, min(left, call.timeout_ms / 1000)),
                call_id=call.id,
                attempt=call.attempt,
                client_capabilities=self._declared(call) if call.relay else None,
                log_level=relays.log_level(call.relay),
                on_notification=run.notes.take if run.notes else None,
                on_progress=lambda seen: self._on_progress(run, call, seen),
                on_position=lambda position: self._on_position(run, call, position),
                resume_at=run.position,
                is_left=lambda: run.is_left,
            ),
        )

    async def _open(self, call: Claimed) -> None:
        try:
            async with asyncio.timeout((call.deadline_at - now()).total_seconds()):
                await self._sessions.ensure_open(call.connection_id)
        except TimeoutError as exc:
            raise UpstreamTimeoutError(was_sent=False) from exc

    async def _keep_position(self, run: Run, call: Claimed) -> bool:
        """Store the newest position first: a sent call is released with one or not at all."""
        if run.position is None:
            return False
        note = ledger.NoteStream(fence=call.fence, stream=asdict(run.position))
        return await self._stored(partial(ledger.note_stream, note))

    async def _give_back(self, call: Claimed, again: Again) -> bool:
        if not await self._stored(partial(ledger.release, call.fence)):
            self.counts.outrun += 1
            return False
        if again.holder:
            entry = LaneEntry(kind=EntryKind.CALL, id=call.id, connection_id=call.connection_id)
            lane_writer().ring(again.holder, entry)
            return False
        await asyncio.sleep(again.pause)
        return True

    async def _park(self, run: Run, call: Claimed, found: Round) -> bool:
        """Let a call wait without a session; True: it is just to be sent again."""

        async def park() -> bool:
            return await self._threads.run(input_store.park_round, call, found)

        try:
            is_parked = await self._stored(park)
        except UpstreamError as exc:
            await self._finish(run, call, endings.of_problem(CallStatus.FAILED, exc))
            return False
        if not is_parked:
            self.counts.outrun += 1
            return False
        if not found.is_only_state:
            quotas.prolong(claimed_calls.place(call))
            return False
        await asyncio.sleep(PAUSES[min(call.rounds, len(PAUSES) - 1)])
        return True

    # --- the end of a call ----------------------------------------------------------------------

    def _declared(self, call: Claimed) -> JSONObject:
        return self._sessions.declared(call.connection_id, call.relay)

    async def _finish(self, run: Run, call: Claimed, ending: Ending) -> None:
        end = await claimed_calls.finish_of(call, ending, run.progress)
        if not await self._stored(partial(ledger.finish, end)):
            self.counts.outrun += 1
            logger.warning("end refused call=%s attempt=%d", call.id, call.attempt)
            return
        self.counts.finished += 1
        if reply_to := run.reply_to or call.reply_to:
            outcome = CallOutcome(
                id=call.id,
                status=ending.status,
                outcome_json=ending.outcome_json,
                is_tool_error=ending.is_tool_error,
                problem_code=ending.problem_code,
                problem_detail=ending.problem_detail,
            )
            tick_pipeline().send(*replies.publish_command(reply_to, outcome))
        quotas.give_back(claimed_calls.place(call))
        events.announce_call_finished(claimed_calls.notice(call, ending))

    async def _stored(self, write: Callable[[], Awaitable[bool]]) -> bool:
        """Write, again while the database is away: what is to be stored exists only here."""
        deadline = Deadline.after(STORE_SECONDS)
        pause = 0.1
        while True:
            try:
                return await write()
            except UnavailableError:
                if deadline.is_over:
                    raise
                await asyncio.sleep(pause)
                pause = min(pause * 2, 2.0)

    # --- progress -------------------------------------------------------------------------------

    def _on_progress(self, run: Run, call: Claimed, seen: JSONObject) -> None:
        """Announce it (the publisher coalesces) and keep it: once a second, the last at the end."""
        events.announce_call_progress(claimed_calls.notice(call), seen)
        run.progress = progress.kept(seen)
        if time.monotonic() - run.noted_at < NOTE_SECONDS:
            return
        run.noted_at = time.monotonic()
        note = claimed_calls.progress_of(call, run.progress, run.asked_seconds)
        self._note(ledger.note_progress(note))

    def _on_position(self, run: Run, call: Claimed, position: StreamPosition) -> None:
        """Keep it, once a second: from an older one the server says more again, no less."""
        run.position = position
        if time.monotonic() - run.position_noted_at >= NOTE_SECONDS:
            run.position_noted_at = time.monotonic()
            note = ledger.NoteStream(fence=call.fence, stream=asdict(position))
            self._note(ledger.note_stream(note))

    def _note(self, write: Coroutine[Any, Any, bool]) -> None:
        async def noted() -> None:
            with contextlib.suppress(UnavailableError):
                await write

        task = asyncio.get_running_loop().create_task(noted())
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)
