"""Keeper: the connections in one worker's hands; opens, retries, refreshes and lets go of them.

Worker side; its coroutines run on the session host's loop, its queries in threads. What it knows
is rebuilt from the database by whoever takes over.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial

from connectors import queue, selectors
from connectors.models import ListingKind
from connectors.services import catalog, faults, leases, listings, politeness, relays
from connectors.services.catalog import FetchedList
from connectors.services.endings import HeldElsewhereError
from connectors.services.kept import Kept, Pace
from connectors.services.leases import Claim, Lease, Outcome
from connectors.services.notices import Outbox
from connectors.services.parking import Parking
from connectors.services.refreshing import Refreshing
from connectors.services.root_changes import RootChanges
from connectors.services.seen import Traces, tool_secrets
from connectors.services.server_logs import ServerLogs, restore_level
from connectors.services.sign_ins import SignIns
from connectors.services.step_book import StepBook
from connectors.services.timeline import Step
from connectors.services.wishes import Wishes
from connectors.states import State, backoff
from connectors.upstream.errors import session_closed
from connectors.upstream.host import SessionHost, SessionKey
from connectors.upstream.session import Opened, SeenMessage, UpstreamRequest
from mcphub.core import clock
from mcphub.core.errors import AuthorizationNeededError, HubError
from mcphub.core.offload import DatabaseThreads
from mcphub.core.types import JSONObject

logger = logging.getLogger(__name__)

LONGEST_RETRY_AFTER = 300.0


class Keeper:
    """Implements HostListener."""

    def __init__(
        self,
        worker: str,
        host: SessionHost,
        threads: DatabaseThreads,
        *,
        pace: Pace | None = None,
    ) -> None:
        self.worker = worker
        self.host = host
        self._threads = threads
        self._traces = Traces()
        self.on_connected: Callable[[uuid.UUID], None] = _ignore
        """Called when a connection has just been opened here."""
        self._pace = pace or Pace()
        self._refreshing = Refreshing(host, self.refresh, period=self._pace.refresh_seconds)
        self._steps = StepBook(host, threads)
        self._sign_ins = SignIns(self.worker, host, threads, self.open)
        self._sign_ins.on_token = self._traces.hide
        self._logs = ServerLogs()
        self._notices = Outbox()
        self.wishes = Wishes(host, period=self._pace.wish_seconds)
        self.root_changes = RootChanges(host)
        self.parking = Parking(worker, host, threads)
        self._kept: dict[uuid.UUID, Kept] = {}
        self._is_draining = False

    # --- what a worker is asked to do -----------------------------------------------------------

    def is_open(self, connection_id: uuid.UUID) -> bool:
        """Whether the session is open here."""
        return self.host.session(connection_id) is not None

    async def request(self, connection_id: uuid.UUID, request: UpstreamRequest) -> JSONObject:
        """Send one request on the open session. Raises HubError, unsent when there is none."""
        key = self.host.key_of(connection_id)
        try:
            async with self.wishes.during(key, request):
                result = await self.host.request(connection_id, request)
        except AuthorizationNeededError as exc:
            raise exc if key is None else await self._sign_ins.refused(key, exc, request) from exc
        self.wishes.note(key, request)
        return result

    def declared(self, connection_id: uuid.UUID, relay: JSONObject | None) -> JSONObject:
        key, session = self.host.key_of(connection_id), self.host.session(connection_id)
        if key is None or session is None:
            return {}
        return relays.declared(key.spec.client_capabilities, session.opened.era, relay)

    async def ensure_open(self, connection_id: uuid.UUID) -> None:
        """Return when the session is open here; waits for a retry that is due later.

        Raises the HubError that prevents it. The caller bounds the time.
        """
        if self.host.session(connection_id) is not None:
            return
        kept = self._kept.get(connection_id)
        if kept is not None and kept.next_opening is not None:
            await asyncio.shield(kept.next_opening)
        await self.open(connection_id)

    async def open(self, connection_id: uuid.UUID) -> None:
        """Take the lease and open the session; callers of one moment share one opening.

        The connection is connected afterwards, or its row says why not. Raises that HubError.
        """
        kept = self._kept.setdefault(connection_id, Kept())
        if kept.opening is None:
            kept.stop_timer()
            kept.opening = self.host.spawn(
                self._open(connection_id, kept), name=f"open {connection_id}"
            )
        error = await asyncio.shield(kept.opening)
        if error is not None:
            raise error

    async def start_open(self, connection_id: uuid.UUID) -> None:
        """As `open`, when nobody waits for the end; returns at once."""
        self.host.spawn(self._try_open(connection_id), name=f"open {connection_id}")

    async def close(self, connection_id: uuid.UUID) -> None:
        """Close what the member no longer wants; what is wanted again by now stays. Idempotent."""
        if not await self._threads.run(leases.is_wanted, connection_id):
            await self._let_go(connection_id)

    async def refresh(
        self,
        connection_id: uuid.UUID,
        kinds: Iterable[ListingKind],
        said: Iterable[ListingKind] = (),
    ) -> None:
        """Read lists of an open session again and store them; nothing when none is open.

        `said`: which of them the server announced as changed.
        """
        kept = self._kept.get(connection_id)
        lease = kept.lease if kept is not None else None
        session = self.host.session(connection_id)
        if lease is None or session is None:
            return
        lists = await listings.fetch(session, kinds)
        store = partial(catalog.store, fence=lease.fence, secrets=lease.secrets, said=said)
        if not await self._threads.run(store, connection_id, lists):
            await self.check_leases()
        await self._teach(connection_id, lists)

    async def check_leases(self) -> None:
        """Close sessions whose lease somebody else has by now (this worker was asleep)."""
        stored = await self._threads.run(leases.held_by, self.worker)
        for connection_id, epoch in self.host.sessions().items():
            if stored.get(connection_id) != epoch and not self._is_opening(connection_id):
                logger.warning("lease lost connection=%s epoch=%d", connection_id, epoch)
                await self.host.leave(connection_id)
                await self._let_go(connection_id)

    async def take_over(self, predecessor: str) -> int:
        """Open everything that a dead worker held; returns how much that is."""
        count = 0
        while (ids := await self._threads.run(leases.hand_over, predecessor)) is not None:
            for connection_id in ids:
                await self.start_open(connection_id)
            count += len(ids)
        return count

    async def drain(self) -> list[uuid.UUID]:
        """Give every lease back; returns what other workers have to open."""
        self._is_draining = True
        for kept in self._kept.values():
            kept.stop_timer()
        left = await self._threads.run(leases.hand_over_all, self.worker, is_crash=False)
        await asyncio.gather(*map(self.host.leave, left))
        return left

    # --- HostListener ---------------------------------------------------------------------------

    def on_opened(self, key: SessionKey, opened: Opened) -> None:
        """Nothing to do: `_open` goes on."""

    def on_lost(self, key: SessionKey, error: HubError) -> None:
        kept = self._kept.get(key.connection_id)
        if kept is None or kept.lease is None or kept.lease.fence.epoch != key.epoch:
            return
        kept.loss = error
        if kept.opening is None:
            self.host.spawn(self._reopen(key, kept, error), name=f"lost {key.connection_id}")

    def on_notification(
        self, key: SessionKey, method: str, params: JSONObject, asker: UpstreamRequest | None
    ) -> None:
        self._refreshing.note(key.connection_id, method)
        self._logs.note(key, method, params)
        self._notices.note(key, method, params, asker)
        self.parking.on_notification(key, method, params)

    def on_step(self, key: SessionKey, kind: str, detail: JSONObject) -> None:
        kept = self._kept.get(key.connection_id)
        if kept is not None:
            step = Step(kind=kind, detail=detail)
            self._steps.note(key.connection_id, step, is_opening=kept.opening is not None)

    def on_message(self, key: SessionKey, seen: SeenMessage) -> None:
        self._traces.record(key, seen)

    async def on_request(
        self, key: SessionKey, method: str, params: JSONObject, asker: UpstreamRequest | None
    ) -> JSONObject:
        return await self.parking.ask(key, method, params, asker)

    # --- opening --------------------------------------------------------------------------------

    async def _try_open(self, connection_id: uuid.UUID) -> None:
        """Open; one that is under way may have begun with what is not true any more."""
        with contextlib.suppress(HubError):  # the row says what happened
            if self._is_opening(connection_id):
                with contextlib.suppress(HubError):
                    await self.open(connection_id)
            await self.open(connection_id)

    async def _open(self, connection_id: uuid.UUID, kept: Kept) -> HubError | None:
        try:
            if self._is_draining:
                return session_closed()
            claim = await self._claim(connection_id)
            if isinstance(claim, HubError):
                return claim
            if claim.lease is None:
                return await self._not_ours(connection_id, claim)
            kept.lease, kept.loss = claim.lease, None
            error = await self._open_leased(claim, claim.lease, kept)
            if error is not None:
                await self.host.close(connection_id)
                error = await self._sign_ins.after_opening(claim.spec, error)
                await self._failed(claim.lease, kept, error)
            elif kept.loss is not None:
                await self._failed(claim.lease, kept, kept.loss)
            return error or kept.loss
        finally:
            kept.opening = None

    async def _claim(self, connection_id: uuid.UUID) -> Claim | HubError:
        try:
            return await self._threads.run(
                leases.claim,
                connection_id,
                self.worker,
                is_alive=queue.is_alive,
                open_epoch=self.host.sessions().get(connection_id),
            )
        except HubError as exc:  # Redis is away, so that nobody can be called dead
            return exc

    async def _not_ours(self, connection_id: uuid.UUID, claim: Claim) -> HubError | None:
        if claim.outcome is Outcome.HERE:
            return None
        if claim.outcome is Outcome.ELSEWHERE:
            entry = queue.LaneEntry(kind=queue.EntryKind.CONNECT, id=connection_id)
            queue.lane_writer().ring(claim.holder, entry)
            return HeldElsewhereError(claim.holder)
        if claim.outcome is Outcome.UNWANTED:
            await self._let_go(connection_id)
            return claim.fault or selectors.NotConnectedError()
        return session_closed()

    async def _open_leased(self, claim: Claim, lease: Lease, kept: Kept) -> HubError | None:
        """Open, read the catalog and store both; the error that prevented it."""
        started = asyncio.get_running_loop().time()
        connection_id = lease.connection_id
        try:
            spec = claim.spec_or_raise()
            async with politeness.opening(spec.url):
                opened = await self.host.open(spec, lease.fence.epoch)
            session = self.host.session(connection_id)
            if session is None:
                return kept.loss or session_closed()
            await restore_level(session, lease.log_level)
            self.wishes.choose(self.host.key_of(connection_id), lease.log_level)
            lists = await listings.fetch_first(session)
        except HubError as exc:
            return kept.loss or exc
        if kept.loss is not None:
            return kept.loss
        steps = self._steps.take(connection_id)
        if not await self._threads.run(leases.record_open, lease, opened, lists, steps):
            return session_closed()
        await self._teach(connection_id, lists)
        kept.opened_at = asyncio.get_running_loop().time()
        logger.info(
            "connected connection=%s epoch=%d era=%s transport=%s seconds=%.2f",
            connection_id,
            lease.fence.epoch,
            opened.era.value,
            opened.transport.value,
            kept.opened_at - started,
        )
        self.on_connected(connection_id)
        return None

    async def _teach(self, connection_id: uuid.UUID, lists: Sequence[FetchedList]) -> None:
        """Let the session and its trace know the tools."""
        session, key = self.host.session(connection_id), self.host.key_of(connection_id)
        for each in lists:
            if each.kind == ListingKind.TOOLS and each.error is None and session and key:
                session.learn_tools(list(each.items))
                self._traces.learn(key, await self._threads.run(tool_secrets, each.items))

    async def _reopen(self, key: SessionKey, kept: Kept, error: HubError) -> None:
        """Go on after a session was lost; one that was stable starts with the first attempt."""
        lease = kept.lease
        if lease is None or lease.fence.epoch != key.epoch:
            return
        age = asyncio.get_running_loop().time() - kept.opened_at
        attempt = kept.attempt if age < self._pace.stable_seconds else 0
        await self._failed(leases.with_attempt(lease, attempt), kept, error)

    async def _failed(self, lease: Lease, kept: Kept, error: HubError) -> None:
        """Record why it is not connected, and plan the next attempt if there is to be one."""
        connection_id = lease.connection_id
        if error.problem_code == "worker_full":
            kept.lease = None
            await self._threads.run(leases.pass_on, lease)
            return
        wait = self._wait(lease, error)
        steps = [
            *self._steps.take(connection_id),
            Step(kind="failed", detail=faults.step_detail(error)),
        ]
        logger.info(
            "not connected connection=%s code=%s attempt=%d next=%s",
            connection_id,
            error.problem_code,
            lease.attempt,
            "none" if wait is None else f"{wait:.1f}s",
        )
        kept.attempt = lease.attempt + 1
        if wait is not None:
            at = clock.now() + timedelta(seconds=wait)
            kept.lease = await self._threads.run(leases.record_retry, lease, error, at, steps)
            is_recorded = kept.lease is not None
        else:
            to = State.AUTH_REQUIRED if faults.needs_authorization(error) else State.ERROR
            kept.lease = None
            is_recorded = await self._threads.run(leases.record_end, lease, to, error, steps)
        if not is_recorded:
            await self._threads.run(leases.release, connection_id, lease.fence)
        elif kept.lease is not None and wait is not None:
            self._start_timer(connection_id, kept, wait)

    def _wait(self, lease: Lease, error: HubError) -> float | None:
        if not lease.auto_reconnect or not faults.may_pass(error):
            return None
        if error.problem_code == "session_lost" and lease.attempt == 0:
            return 0.0
        wait = backoff(lease.attempt + 1, self._pace.jitter())
        if wait is None:
            return None
        return max(wait, min(error.retry_after or 0.0, LONGEST_RETRY_AFTER))

    async def _let_go(self, connection_id: uuid.UUID) -> None:
        kept = self._kept.pop(connection_id, None)
        self._refreshing.forget(connection_id)
        await self.host.close(connection_id)
        if kept is not None:
            kept.stop_timer()
            if kept.lease is not None:
                await self._threads.run(leases.release, connection_id, kept.lease.fence)

    # --- timers -----------------------------------------------------------------

    def _start_timer(self, connection_id: uuid.UUID, kept: Kept, wait: float) -> None:
        if self._is_draining:
            return
        later = self._pace.later or asyncio.get_running_loop().call_later
        kept.start_timer(later, wait, partial(self._retry, connection_id, kept))

    def _retry(self, connection_id: uuid.UUID, kept: Kept) -> None:
        kept.stop_timer()
        self.host.spawn(self._try_open(connection_id), name=f"retry {connection_id}")

    def _is_opening(self, connection_id: uuid.UUID) -> bool:
        kept = self._kept.get(connection_id)
        return kept is not None and kept.opening is not None


def _ignore(connection_id: uuid.UUID) -> None:
    del connection_id
