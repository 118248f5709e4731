"""Sessions whose answers come on one shared stream: legacy SSE and stdio."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Any

from connectors.upstream import errors, jsonrpc
from connectors.upstream.base import BaseSession, depth_for
from connectors.upstream.calls import Call
from connectors.upstream.contract import SessionListener
from mcphub.core.errors import HubError, UpstreamError
from mcphub.core.types import JSONObject


class DuplexSession(BaseSession):
    """Answers are matched to calls by id; what cannot be placed is traced and dropped."""

    def __init__(self, listener: SessionListener) -> None:
        super().__init__(listener)
        self._waiting: dict[int, asyncio.Future[tuple[JSONObject, int]]] = {}

    @abstractmethod
    async def send(self, message: JSONObject, body: bytes) -> None:
        """Put one message on the wire. Raises HubError."""

    async def _post(self, message: JSONObject) -> None:
        body = jsonrpc.encode(message)
        self.tap.sent(message, len(body))
        await self.send(message, body)

    async def exchange(self, call: Call) -> JSONObject:
        body = jsonrpc.encode(call.message)
        self.tap.sent(call.message, len(body), call)
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[tuple[JSONObject, int]] = loop.create_future()
        self._waiting[call.id] = answered
        sending = loop.create_task(self.send(call.message, body))
        try:
            both: set[asyncio.Future[Any]] = {answered, sending}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not _is_answered(answered) and (sending.done() or not answered.done()):
                await sending
            message, size = await answered
            return self._settle(call, message, size)
        finally:
            del self._waiting[call.id]
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    def take(self, raw: bytes) -> None:
        """Take in one message from the wire; a bad one never ends the session."""
        only = self.calls.only()
        try:
            message = self.receive(raw, only, max_depth=jsonrpc.LISTING_DEPTH)
        except UpstreamError as exc:
            if only is not None:
                self._fail(only.id, exc)
            return
        if message is not None:
            self._place(message, len(raw))

    def _place(self, message: JSONObject, size: int) -> None:
        call = self.calls.get(message.get("id"))
        if call is None and message.get("id") is None and "error" in message:
            call = self.calls.only()
        answered = self._waiting.get(call.id) if call is not None else None
        if call is None or answered is None or answered.done():
            self.drop_answer(message, size, None, "duplicate" if call else "other_id")
            return
        limit = depth_for(call.request.method)
        if limit < jsonrpc.LISTING_DEPTH and jsonrpc.is_deeper(message, limit):
            self.tap.received(message, size, call, is_answer=True)
            self._fail(call.id, errors.protocol_fault("The answer is nested too deep."))
            return
        self._note_loose_id(jsonrpc.match_id(call.id, message.get("id")))
        answered.set_result((message, size))

    def _fail(self, request_id: int, error: HubError) -> None:
        answered = self._waiting.get(request_id)
        if answered is not None and not answered.done():
            answered.set_exception(error)

    def fail_oversized(self, limit: int) -> None:
        """Fail the call that an oversized message must have belonged to, when that is clear."""
        self.listener.on_step("message_too_large", {"limit": limit})
        only = self.calls.only()
        if only is not None:
            self._fail(only.id, errors.too_large(limit))

    def lose(self, broken: HubError, lost: HubError) -> None:
        """End the session: calls in flight fail with `broken`, later ones with `lost`."""
        for answered in self._waiting.values():
            if not answered.done():
                answered.set_exception(broken)
        self.end(lost)


def _is_answered(answered: asyncio.Future[tuple[JSONObject, int]]) -> bool:
    """Whether an answer came; one that came counts more than a failing POST."""
    return answered.done() and not answered.cancelled() and answered.exception() is None
