"""The worker process: starts the session host, reads its lane, beats, and drains at the end.

A Celery bootstep of the threads and solo pools; prefork would give every child a host of its own.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import time
import uuid
from typing import Any

from celery import bootsteps
from django.conf import settings

from connectors import queue
from connectors.models import ListingKind
from connectors.queue import (
    EntryKind,
    LaneEntry,
    LaneReader,
    WorkerLoad,
    lane_writer,
    tick_pipeline,
)
from connectors.services import here, ledger, quotas, reaper, recovery, tool_calls
from connectors.services.execution import Executor
from connectors.services.keeping import Keeper
from connectors.services.kept import Pace
from connectors.upstream.host import SessionHost
from mcphub.core import broadcast
from mcphub.core.egress import policy_from_settings
from mcphub.core.errors import HubError, UnavailableError
from mcphub.core.offload import DatabaseThreads
from tracing import recorder

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 3.0
LEASE_CHECK_SECONDS = 15.0
BEGIN_SECONDS = 15.0
CALLS_SECONDS = 18.0
SESSIONS_SECONDS = 4.0
LONGEST_SLOT = 50


class SessionWorker:
    """Everything that one worker process runs for sessions and calls."""

    def __init__(self, *, slot: str = "", pace: Pace | None = None) -> None:
        self.slot = (slot or socket.gethostname())[:LONGEST_SLOT]
        self.id = f"{self.slot}-{uuid.uuid4().hex[:12]}"
        self.host = SessionHost(policy=policy_from_settings())
        self.threads = DatabaseThreads(name="worker-database", threads=4)
        self.keeper = Keeper(self.id, self.host, self.threads, pace=pace)
        self.executor: Executor
        self._is_slot_ours = bool(slot)
        self._is_draining = self._has_ended = False
        self._checked_at = time.monotonic()
        self._since = int(time.time())

    def start(self) -> None:
        """Start the host's thread; returns when the worker takes work."""
        self.host.start(self.keeper)
        self.host.run(self._begin(), BEGIN_SECONDS)
        here.settle(self.keeper)
        logger.info("worker started worker=%s", self.id)

    def stop(self) -> None:
        """End calls, sessions and threads within 25 s; other workers get the connections."""
        logger.info("worker stopping worker=%s calls=%d", self.id, self.executor.in_flight)
        started = time.monotonic()
        self._is_draining = True
        here.settle(None)
        try:
            left = self.host.run(self._end(), CALLS_SECONDS + 5.0)
            recovery.ask_others(left)
        except (HubError, TimeoutError):
            logger.warning("worker did not give everything back worker=%s", self.id)
        self.host.drain(SESSIONS_SECONDS)
        recorder.drain(2.0)
        broadcast.flush(1.0)
        self._close_threads()
        logger.info("worker stopped worker=%s seconds=%.1f", self.id, time.monotonic() - started)

    # --- on the host's loop -----------------------------------------------------------------------

    async def _begin(self) -> None:
        self.executor = Executor(self.keeper)
        self.keeper.on_connected = self._pick_up
        self.keeper.parking.calls = self.executor
        self.host.at_end.append(self._close_redis)
        await self._beat_once()
        for work, name in ((self._beat(), "heartbeat"), (self._read_lane(), "lane")):
            self.host.spawn(work, name=name).add_done_callback(self._on_over)
        if self._is_slot_ours:
            self.host.spawn(self._succeed(), name="succession")

    def _on_over(self, task: asyncio.Task[None]) -> None:
        """End a process that would look alive but takes no work; its supervisor starts another."""
        if not task.cancelled() and not self._is_draining:
            logger.critical("worker ends itself task=%s worker=%s", task.get_name(), self.id)
            os.kill(os.getpid(), signal.SIGTERM)

    async def _close_redis(self) -> None:
        lane_writer.take()
        pipeline = tick_pipeline.take()
        if pipeline is not None:
            await pipeline.aclose()

    async def _end(self) -> list[uuid.UUID]:
        await self._beat_once()
        await self.executor.drain(CALLS_SECONDS)
        left = await self.keeper.drain()
        self._has_ended = True
        await self.threads.run(reaper.end_worker, self.id)
        return left

    async def _beat(self) -> None:
        """Renew this worker's entry, and look after its leases: at once when it overslept.

        The looking waits for the database, which must never keep the worker from saying it lives.
        """
        checking: asyncio.Task[None] | None = None
        while not self._has_ended:
            before = time.monotonic()
            await asyncio.sleep(HEARTBEAT_SECONDS)
            has_overslept = time.monotonic() - before > settings.WORKER_TTL
            await self._beat_once()
            is_due = has_overslept or time.monotonic() - self._checked_at > LEASE_CHECK_SECONDS
            if is_due and (checking is None or checking.done()):
                checking = self.host.spawn(self._check_leases(), name="lease check")

    async def _beat_once(self) -> None:
        if self._has_ended:
            return
        load = WorkerLoad(
            worker=self.id,
            calls=self.executor.in_flight,
            sessions=len(self.host.sessions()),
            is_draining=self._is_draining,
            since=self._since,
            executed=self.executor.counts.claimed,
            duplicates=self.executor.counts.duplicates,
            outrun=self.executor.counts.outrun,
            tasks=len(asyncio.all_tasks()),
        )
        try:
            await queue.announce_worker(load)
        except UnavailableError:
            logger.warning("heartbeat not sent worker=%s", self.id)

    async def _check_leases(self) -> None:
        try:
            await self.keeper.check_leases()
        except Exception:
            logger.exception("leases not checked worker=%s", self.id)
        self._checked_at = time.monotonic()

    async def _read_lane(self) -> None:
        reader = LaneReader(self.id)
        try:
            async for entry in reader:
                self._dispatch(entry)
        finally:
            await reader.aclose()

    def _dispatch(self, entry: LaneEntry) -> None:
        """Start what an entry asks for; never blocks the lane."""
        name = f"{entry.kind.value} {entry.id}"
        if entry.kind in {EntryKind.CALL, EntryKind.CANCEL}:
            self.executor.on_entry(entry)
        elif entry.kind is EntryKind.INPUT:
            self.keeper.parking.look()
        elif entry.kind is EntryKind.CONNECT:
            self.host.spawn(self.keeper.start_open(entry.id), name=name)
        elif entry.kind is EntryKind.DISCONNECT:
            self.host.spawn(self.keeper.close(entry.id), name=name)
        elif entry.kind is EntryKind.WISH:
            self.keeper.wishes.look(entry.id)
        elif entry.kind is EntryKind.ROOTS:
            self.keeper.root_changes.note(entry.id)
        elif entry.kind is EntryKind.REFRESH:
            self.host.spawn(self.keeper.refresh(entry.id, list(ListingKind)), name=name)

    def _pick_up(self, connection_id: uuid.UUID) -> None:
        self.keeper.wishes.look(connection_id)
        self.host.spawn(self.executor.pick_up(connection_id), name=f"pick up {connection_id}")

    async def _succeed(self) -> None:
        """Take over from earlier workers of this slot at once: their supervisor replaced them."""
        for earlier in await self.threads.run(recovery.predecessors, self.slot, self.id):
            await self.threads.run(reaper.end_worker, earlier)
            count = await self.keeper.take_over(earlier)
            logger.info("took over earlier=%s worker=%s connections=%d", earlier, self.id, count)

    def _close_threads(self) -> None:
        self.threads.close()
        tool_calls.close()
        ledger.close()
        quotas.close()


class HostStep(bootsteps.StartStopStep):
    """Runs a SessionWorker between the pool's start and its end."""

    name = "session host"
    requires = ("celery.worker.components:Pool",)

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self.worker: SessionWorker | None = None

    def include_if(self, parent: Any) -> bool:
        """End a worker of another pool: it would take lifecycle tasks that it cannot carry out."""
        is_fit = parent.pool_cls.__module__ in {
            "celery.concurrency.thread",
            "celery.concurrency.solo",
        }
        if not is_fit:
            raise SystemExit("mcphub: start this worker with --pool=threads (or --pool=solo)")
        return is_fit

    def start(self, parent: Any) -> None:
        del parent
        self.worker = SessionWorker(slot=settings.WORKER_SLOT)
        self.worker.start()

    def stop(self, parent: Any) -> None:
        del parent
        if self.worker is not None:
            self.worker.stop()
            self.worker = None
