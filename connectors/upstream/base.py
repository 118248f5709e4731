"""What every session does whatever its transport: calls, timers, cancellation, inbound messages."""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Coroutine
from typing import Any

from connectors.upstream import errors, jsonrpc
from connectors.upstream.calls import Call, Calls
from connectors.upstream.contract import (
    OF_CONNECTION,
    Session,
    SessionListener,
    UpstreamRequest,
)
from connectors.upstream.eras import EraRules
from connectors.upstream.peer_requests import PeerRequests
from connectors.upstream.tap import Tap
from connectors.upstream.turns import Turns
from mcphub.core.errors import (
    HubError,
    UpstreamTimeoutError,
)
from mcphub.core.types import JSONObject

logger = logging.getLogger(__name__)

CLOSE_SECONDS = 2.0
PROGRESS = "notifications/progress"
CANCELLED = "notifications/cancelled"
HANDSHAKE = frozenset({"initialize", "server/discover"})


class BaseSession(Session):
    """Template of a session; a transport implements `_exchange` and `_post`."""

    rules: EraRules

    def __init__(self, listener: SessionListener) -> None:
        self.listener = listener
        self.tap = Tap(listener)
        self.calls = Calls()
        self.turns = Turns()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending: HubError | None = None
        self._peer = PeerRequests(listener, self._answer_peer)

    async def request(self, request: UpstreamRequest) -> JSONObject:
        if self._ending is not None:
            raise self._refusal()
        if request.deadline.is_over:
            raise errors.timed_out("The deadline was over before the request left.", was_sent=False)
        if request.resume_at is not None:
            raise errors.stream_broken()
        call = self.begin(request)
        return await self.ended(call, self.exchange(call))

    async def ended(self, call: Call, exchange: Coroutine[Any, Any, JSONObject]) -> JSONObject:
        """Return what an open call comes to, within its time; closes it."""
        try:
            async with asyncio.timeout(None) as call.timer:
                call.arm()
                return await exchange
        except (TimeoutError, HubError) as exc:
            error = self._as_error(call, exc)
            self.tap.failed(call, error)
            if isinstance(error, UpstreamTimeoutError) and error.was_sent:
                self._cancel_upstream(call, "The deadline is over.")
            if error is exc:
                raise
            raise error from exc
        except asyncio.CancelledError:
            if not call.request.is_left():
                self._cancel_upstream(call, "The caller gave up.")
            raise
        finally:
            call.timer = None  # it is over; a question that ends only now must not set it again
            self.calls.remove(call)
            self._peer.end_call(call)

    async def notify(self, method: str, params: JSONObject) -> None:
        if self._ending is not None:
            raise self._refusal()
        await self._post(jsonrpc.notification(method, params))

    def begin(self, request: UpstreamRequest) -> Call:
        request_id = self.calls.next_id()
        params = self.rules.stamp(request, request_id)
        message = jsonrpc.request(request_id, request.method, params or None)
        call = Call(id=request_id, request=request, message=message)
        self.calls.add(call)
        return call

    @abstractmethod
    async def exchange(self, call: Call) -> JSONObject:
        """Send the call's message and return the result of its answer."""

    @abstractmethod
    async def _post(self, message: JSONObject) -> None:
        """Send a message that gets no answer."""

    def _as_error(self, call: Call, exc: TimeoutError | HubError) -> HubError:
        if isinstance(exc, HubError):
            return exc
        if call.deadline.is_over:
            return errors.timed_out()
        return errors.timed_out("The server was silent for too long.")

    def _refusal(self) -> HubError:
        return errors.session_closed() if self._ending is None else errors.session_lost()

    def _cancel_upstream(self, call: Call, reason: str) -> None:
        """Tell the server to stop; modern HTTP says it by closing the stream and overrides this."""
        if call.request.method in HANDSHAKE or self._ending is not None:
            return
        params: JSONObject = {"requestId": call.id, "reason": reason}
        self.spawn(self._post_quietly(jsonrpc.notification(CANCELLED, params)))

    async def _post_quietly(self, message: JSONObject) -> None:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._post(message)
        except (HubError, TimeoutError) as exc:
            self.listener.on_step("post_failed", {"error": type(exc).__name__})

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def is_open(self) -> bool:
        """Whether the handshake is done; before that a failure is told by raising it."""
        return getattr(self, "opened", None) is not None

    def end(self, error: HubError, *, is_announced: bool = True) -> None:
        """Mark the session as over; announce it once."""
        if self._ending is not None:
            return
        self._ending = error
        if is_announced and self.is_open:
            self.listener.on_step("session_ended", {"code": error.problem_code})
            self.listener.on_lost(error)

    async def _stop_tasks(self) -> None:
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- inbound

    def receive(self, raw: bytes, call: Call | None, *, max_depth: int) -> JSONObject | None:
        """Take one message in; return it when it is an answer, which only the caller can place.

        Raises UpstreamError (`protocol_error`) when the bytes are no message.
        """
        try:
            message = jsonrpc.parse(raw, max_depth=max_depth)
        except jsonrpc.MalformedError as exc:
            self.tap.unreadable(raw, call)
            raise errors.protocol_fault(f"The answer is {exc}.") from exc
        kind = jsonrpc.kind_of(message)
        if kind is jsonrpc.Kind.NOTIFICATION:
            self._on_notification(message, len(raw), call)
        elif kind is jsonrpc.Kind.REQUEST:
            self.tap.received(message, len(raw), call)
            self._on_peer_request(message, call)
        elif kind is jsonrpc.Kind.ANSWER:
            return message
        else:
            self.tap.received(message, len(raw), call)
            raise errors.protocol_fault("The answer is no JSON-RPC message.")
        return None

    def _on_notification(self, message: JSONObject, size: int, call: Call | None) -> None:
        method, params = str(message["method"]), jsonrpc.params_of(message)
        if method == PROGRESS:
            call = self.calls.get(params.get("progressToken")) or call
        self.tap.received(message, size, call)
        if method == PROGRESS and call is not None:
            call.on_progress(params)
        elif method == CANCELLED:
            self._peer.cancel(params.get("requestId"))
        if call is not None and call.on_notification is not None:
            call.on_notification(method, params)
        asker = call.request if call is not None and not call.is_standing else None
        if asker is not None and asker.on_notification and method not in OF_CONNECTION:
            asker.on_notification(method, params)
        self.listener.on_notification(method, params, asker)

    def _on_peer_request(self, message: JSONObject, call: Call | None) -> None:
        if call is None or call.is_standing:
            call = self.calls.only_of_host()
        self._peer.take(message, call)

    async def _answer_peer(self, message: JSONObject) -> None:
        await self._post_quietly(message)

    def drop_answer(self, message: JSONObject, size: int, call: Call | None, why: str) -> None:
        self.tap.received(message, size, call)
        self.listener.on_step("answer_dropped", {"why": why})

    def _settle(self, call: Call, message: JSONObject, size: int, status: int = 200) -> JSONObject:
        """Return the result of the answer to `call`. Raises PeerError or `protocol_error`."""
        self.tap.received(message, size, call, is_answer=True)
        try:
            error = jsonrpc.error_of(message)
            if error is None:
                return jsonrpc.result_of(message)
        except jsonrpc.MalformedError as exc:
            raise errors.protocol_fault(f"The answer has {exc}.") from exc
        raise errors.PeerError(error, http_status=status)

    def _note_loose_id(self, match: jsonrpc.IdMatch) -> None:
        if match is jsonrpc.IdMatch.LOOSE:
            self.listener.on_step("loose_id", {})


def depth_for(method: str) -> int:
    """Return the depth cap of an answer; the items of listings are judged one by one (wire)."""
    return jsonrpc.LISTING_DEPTH if method.endswith("/list") else jsonrpc.MAX_DEPTH
