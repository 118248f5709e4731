"""SessionHost: the event loop of a worker, in a thread of its own, and the sessions on it.

One owner task per session opens, holds and closes it; nobody else touches its contexts. No database
here: what happens is told to a HostListener. Create the host after fork (it starts a thread).
"""

from __future__ import annotations

import asyncio
import logging
import threading
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar

from connectors import selectors
from connectors.server_spec import ServerSpec
from connectors.upstream.authorized import AuthorizedClient
from connectors.upstream.errors import session_closed
from connectors.upstream.session import (
    Opened,
    SeenMessage,
    Session,
    SessionListener,
    UpstreamRequest,
    open_session,
)
from mcphub.core.crypto import Secret
from mcphub.core.egress import EgressClient, EgressPolicy
from mcphub.core.errors import HubError, UnavailableError, UpstreamError
from mcphub.core.types import JSONObject

try:
    import uvloop
except ImportError:  # pragma: no cover  (not on Windows)
    NEW_LOOP = asyncio.new_event_loop
else:
    NEW_LOOP = uvloop.new_event_loop

logger = logging.getLogger(__name__)

T = TypeVar("T")

START_SECONDS = 10.0
CLOSE_SECONDS = 2.5
END_SECONDS = 1.0
LAG_PERIOD = 0.25


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class SessionKey:
    """Which session speaks: a connection under one epoch of its lease; compared by identity."""

    spec: ServerSpec
    epoch: int

    @property
    def connection_id(self) -> uuid.UUID:
        return self.spec.connection_id


class HostListener(Protocol):
    """Told on the host's loop; everything but `on_request` must return at once."""

    def on_opened(self, key: SessionKey, opened: Opened) -> None: ...

    def on_lost(self, key: SessionKey, error: HubError) -> None: ...

    def on_notification(
        self, key: SessionKey, method: str, params: JSONObject, asker: UpstreamRequest | None
    ) -> None: ...

    def on_step(self, key: SessionKey, kind: str, detail: JSONObject) -> None: ...

    def on_message(self, key: SessionKey, seen: SeenMessage) -> None: ...

    async def on_request(
        self, key: SessionKey, method: str, params: JSONObject, asker: UpstreamRequest | None
    ) -> JSONObject: ...


class TokensOfHost(Protocol):
    async def __call__(self, key: SessionKey, *, rejected: str | None = None) -> Secret: ...


class SessionOpener(Protocol):
    async def __call__(
        self, spec: ServerSpec, *, http: EgressClient, listener: SessionListener
    ) -> Session: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLimits:
    """How much one host takes on."""

    sessions: int = 5000
    opening: int = 64


class SessionHost:
    """The sessions of one process. Public coroutines run on the host's loop only."""

    def __init__(
        self,
        *,
        policy: EgressPolicy,
        limits: HostLimits | None = None,
        opener: SessionOpener = open_session,
    ) -> None:
        self.lag = 0.0
        """Lately greatest delay of the loop in seconds; fades."""
        self.opener = opener
        self.at_end: list[Callable[[], Awaitable[None]]] = []
        """Run on the loop when sessions and tasks have ended."""
        self.tokens: TokensOfHost | None = None
        """Where sessions with a grant get their tokens from."""
        self.http: EgressClient
        self.opening: asyncio.Semaphore
        self._listener: HostListener | None = None
        self._policy = policy
        self._limits = limits or HostLimits()
        self._owners: dict[uuid.UUID, Owner] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_ready = threading.Event()
        self._stop: asyncio.Event

    # --- life of the host; from any other thread --------------------------------------------

    def start(self, listener: HostListener) -> None:
        """Start the loop's thread; returns when it runs. Call it once."""
        if self._thread is not None:
            raise RuntimeError("a session host is started once")
        self._listener = listener
        self._thread = threading.Thread(target=self._serve, name="session-host", daemon=True)
        self._thread.start()
        if not self._is_ready.wait(START_SECONDS):
            raise UnavailableError("The session host did not start.")

    def run(self, coro: Coroutine[Any, Any, T], seconds: float) -> T:
        """Run `coro` on the loop and wait for it. Raises TimeoutError after `seconds`."""
        future = self.submit(coro)
        try:
            return future.result(seconds)
        except TimeoutError:
            future.cancel()
            raise

    def submit(self, coro: Coroutine[Any, Any, T]) -> Future[T]:
        """Run `coro` on the loop without waiting."""
        if self._loop is None:
            coro.close()
            raise UnavailableError("The session host is not running.")
        return asyncio.run_coroutine_threadsafe(coro, self._loop)

    def drain(self, seconds: float) -> None:
        """Close every session and end the loop's thread; bounded by `seconds`."""
        if self._loop is None or self._thread is None:
            return
        self.submit(self._close_all(seconds))
        self._thread.join(seconds + 1.0)
        if self._thread.is_alive():
            logger.error("session host did not end in time seconds=%.1f", seconds)

    # --- on the loop --------------------------------------------------------------------------

    @property
    def listener(self) -> HostListener:
        if self._listener is None:
            raise RuntimeError("the session host is not started")
        return self._listener

    def spawn(self, coro: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Run `coro` in the background; what it raises is logged."""
        task = asyncio.get_running_loop().create_task(coro, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._forget_task)
        return task

    async def open(self, spec: ServerSpec, epoch: int) -> Opened:
        """Open the session of a connection; an open one of the same epoch is kept.

        Raises HubError as `open_session` does, UnavailableError when the host is full. Cancelling
        the caller does not end the opening; `close` does.
        """
        owner = self._owners.get(spec.connection_id)
        if owner is not None and owner.key.epoch != epoch:
            await self.close(spec.connection_id)
            owner = None
        if owner is None:
            if len(self._owners) >= self._limits.sessions:
                raise UnavailableError("This worker is full.", code="worker_full", retry_after=1.0)
            owner = Owner(self, SessionKey(spec=spec, epoch=epoch))
            self._owners[spec.connection_id] = owner
            owner.task = self.spawn(owner.live(), name=f"session {spec.connection_id}")
        return await asyncio.shield(owner.opened)

    def session(self, connection_id: uuid.UUID) -> Session | None:
        """Return the open session of a connection."""
        owner = self._owners.get(connection_id)
        return owner.session if owner is not None else None

    def key_of(self, connection_id: uuid.UUID) -> SessionKey | None:
        """Return the key of the session that is open or opening here."""
        owner = self._owners.get(connection_id)
        return owner.key if owner is not None else None

    async def request(self, connection_id: uuid.UUID, request: UpstreamRequest) -> JSONObject:
        """Send one request on the open session. Raises UpstreamError unsent when there is none."""
        session, key = self.session(connection_id), self.key_of(connection_id)
        if session is None or key is None:
            raise session_closed()
        return await session.request(_discreet(request, key.spec))

    async def close(self, connection_id: uuid.UUID) -> None:
        """Close a session, also one that is still opening; bounded. Idempotent."""
        owner = self._owners.pop(connection_id, None)
        if owner is not None:
            await owner.end()

    async def leave(self, connection_id: uuid.UUID) -> None:
        """As `close`, but the server keeps the session, for whoever holds it from now on."""
        session = self.session(connection_id)
        if session is not None:
            session.is_handed_over = True
        await self.close(connection_id)

    def sessions(self) -> dict[uuid.UUID, int]:
        """Return the epoch of every session that is open here."""
        return {
            connection_id: owner.key.epoch
            for connection_id, owner in self._owners.items()
            if owner.session is not None
        }

    def discard(self, owner: Owner) -> None:
        """Take an owner out of the table, unless another one has its place."""
        if self._owners.get(owner.key.connection_id) is owner:
            del self._owners[owner.key.connection_id]

    # --- the thread ---------------------------------------------------------------------------

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=NEW_LOOP) as runner:
            runner.run(self._live())
        self._loop = None

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self.opening = asyncio.Semaphore(self._limits.opening)
        self.http = EgressClient(self._policy)
        self.spawn(self._watch_lag(), name="loop lag")
        self._is_ready.set()
        try:
            await self._stop.wait()
        finally:
            await self._end_tasks()
            for end in self.at_end:
                await end()
            await self.http.aclose()

    async def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=END_SECONDS)

    async def _close_all(self, seconds: float) -> None:
        closing = [asyncio.ensure_future(self.close(each)) for each in list(self._owners)]
        if closing:
            await asyncio.wait(closing, timeout=seconds)
        self._stop.set()

    async def _watch_lag(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(LAG_PERIOD)
            self.lag = max(loop.time() - before - LAG_PERIOD, self.lag * 0.8)

    def _forget_task(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("background task failed task=%s", task.get_name(), exc_info=error)


class Owner:
    """One session: its task opens it, waits and closes it; and what the session tells goes on."""

    def __init__(self, host: SessionHost, key: SessionKey) -> None:
        self.key = key
        self.client_capabilities = key.spec.client_capabilities
        self.session: Session | None = None
        self.opened: asyncio.Future[Opened] = asyncio.get_running_loop().create_future()
        self.opened.add_done_callback(_look_at)
        self.task: asyncio.Task[None] | None = None
        self._host = host
        self._is_ending = asyncio.Event()

    async def live(self) -> None:
        """Open, hold and close: the one task that enters and leaves the session's contexts."""
        session: Session | None = None
        try:
            session = await self._open()
            if session is not None:
                await self._is_ending.wait()
        finally:
            self.session = None
            self._host.discard(self)
            if not self.opened.done():
                self.opened.set_exception(session_closed())
            if session is not None:
                await session.close()

    async def end(self) -> None:
        """Close the session, or stop opening it; returns when it is over, at most seconds later."""
        self._is_ending.set()
        if self.task is None:
            return
        if not self.opened.done():
            self.task.cancel()
        await asyncio.wait([self.task], timeout=CLOSE_SECONDS)

    async def _open(self) -> Session | None:
        try:
            async with self._host.opening:
                session = await self._host.opener(self.key.spec, http=self._http(), listener=self)
        except HubError as exc:
            self.opened.set_exception(exc)
            return None
        except Exception:
            logger.exception("opening failed connection=%s", self.key.connection_id)
            self.opened.set_exception(UpstreamError("The session could not be opened."))
            return None
        if not self._is_ending.is_set():
            self.session = session
            self.opened.set_result(session.opened)
            self._host.listener.on_opened(self.key, session.opened)
        return session

    def _http(self) -> EgressClient:
        """Return the host's client, with tokens for a server that takes them."""
        if self.key.spec.oauth is None or self._host.tokens is None:
            return self._host.http
        return AuthorizedClient(self._host.http, partial(self._host.tokens, self.key))

    # --- SessionListener ------------------------------------------------------------------------

    def on_message(self, seen: SeenMessage) -> None:
        self._host.listener.on_message(self.key, seen)

    def on_notification(
        self, method: str, params: JSONObject, asker: UpstreamRequest | None
    ) -> None:
        self._host.listener.on_notification(self.key, method, params, asker)

    def on_step(self, kind: str, detail: JSONObject) -> None:
        self._host.listener.on_step(self.key, kind, detail)

    def on_lost(self, error: HubError) -> None:
        """End the owner of a session that is over by itself; told once, and not when we close."""
        was_open = self.session is not None and not self._is_ending.is_set()
        self.session = None
        self._host.discard(self)
        self._is_ending.set()
        if was_open:
            self._host.listener.on_lost(self.key, error)

    async def on_request(
        self, method: str, params: JSONObject, asker: UpstreamRequest | None
    ) -> JSONObject:
        return await self._host.listener.on_request(self.key, method, params, asker)


def _look_at(future: asyncio.Future[Opened]) -> None:
    """Mark a failed opening as seen, so that asyncio does not log it when nobody waits."""
    if not future.cancelled():
        future.exception()


def _discreet(request: UpstreamRequest, spec: ServerSpec) -> UpstreamRequest:
    """Hide the session's own secrets in progress, which is announced and kept in clear."""
    told = request.on_progress
    if told is None:
        return request

    def tell(params: JSONObject) -> None:
        shown = selectors.kept_secrets(spec).hidden(params)
        if isinstance(shown, dict):
            told(shown)

    return replace(request, on_progress=tell)
