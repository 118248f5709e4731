"""Mailbox: what other web processes tell this one about sessions of the handshake era.

answer     a client's answer to a question that this process has asked
cancel     a client does not want a request any more, which any process may be running
end        a session has ended: what is open of it ends
message    a message of an HTTP+SSE client whose stream this process holds

Only the process that has authenticated a POST posts, and always with the session it belongs to.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from connectors.queue import tick_pipeline
from gateway.wire import Reply, RequestId
from mcphub.core import redis
from mcphub.core.errors import RpcError
from mcphub.core.per_loop import PerLoop
from mcphub.core.pubsub import Subscription
from mcphub.core.types import JSONObject

EVERYBODY = "all"
ADDRESS = re.compile(r"[0-9a-f]{16}")

logger = logging.getLogger(__name__)

Running = tuple[str, RequestId]
"""A request that is being answered: session and id."""


class Mailbox:
    """One per event loop; `current` returns the running loop's."""

    def __init__(self) -> None:
        self.address = secrets.token_hex(8)
        self._subscription = Subscription(
            _channel(self.address), _channel(EVERYBODY), on_message=self._on_message
        )
        self._questions: dict[str, tuple[str, asyncio.Future[Reply]]] = {}
        self._running: dict[Running, Callable[[], None]] = {}
        self._ended: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._inboxes: dict[str, Callable[[JSONObject], None]] = {}

    async def start(self) -> None:
        """Return when messages can arrive. Raises UnavailableError."""
        await self._subscription.start()

    async def aclose(self) -> None:
        await self._subscription.aclose()

    # --- for this process ------------------------------------------------------------------------

    @contextmanager
    def question(self, session_id: str) -> Iterator[tuple[str, asyncio.Future[Reply]]]:
        """Yield the id for a question to a client, and what will be its answer."""
        question_id = f"{self.address}.{secrets.token_hex(8)}"
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._questions[question_id] = (session_id, future)
        try:
            yield question_id, future
        finally:
            del self._questions[question_id]

    @contextmanager
    def running(
        self, session_id: str, request_id: RequestId, cancel: Callable[[], None]
    ) -> Iterator[None]:
        """Let the request be cancelled from any process until the block ends."""
        key = (session_id, request_id)
        self._running[key] = cancel
        try:
            yield
        finally:
            if self._running.get(key) == cancel:
                del self._running[key]

    @contextmanager
    def until_ended(self, session_id: str) -> Iterator[asyncio.Event]:
        """Yield an event that is set when the session ends."""
        event = asyncio.Event()
        self._ended[session_id].add(event)
        try:
            yield event
        finally:
            self._ended[session_id].discard(event)
            if not self._ended[session_id]:
                del self._ended[session_id]

    @contextmanager
    def inbox(self, session_id: str, take: Callable[[JSONObject], None]) -> Iterator[None]:
        """Hand over the messages that other processes get for this session."""
        self._inboxes[session_id] = take
        try:
            yield
        finally:
            del self._inboxes[session_id]

    # --- to every process ------------------------------------------------------------------------

    async def answer(self, session_id: str, reply: Reply) -> None:
        """Bring a client's answer to whoever asked; one that nobody waits for is lost."""
        address, _, _ = str(reply.id).partition(".")
        if not ADDRESS.fullmatch(address):
            return
        error = reply.error
        told: JSONObject = {"id": reply.id, "result": reply.result}
        if error is not None:
            told["error"] = {"code": error.code, "message": error.message, "data": error.data}
        await self._post(address, {"kind": "answer", "session": session_id, **told})

    async def cancel(self, session_id: str, request_id: RequestId) -> None:
        await self._post(EVERYBODY, {"kind": "cancel", "session": session_id, "id": request_id})

    async def end(self, session_id: str) -> None:
        await self._post(EVERYBODY, {"kind": "end", "session": session_id})

    async def message(self, address: str, session_id: str, message: JSONObject) -> bool:
        """Hand a message to the process with the session's stream; False: there is none."""
        body: JSONObject = {"kind": "message", "session": session_id, "message": message}
        return await self._post(address, body)

    async def _post(self, address: str, body: JSONObject) -> bool:
        if address in {self.address, EVERYBODY}:
            self._take(body)
        if address == self.address:
            return True
        body["from"] = self.address
        heard = await tick_pipeline().call("PUBLISH", _channel(address), json.dumps(body))
        return int(heard) > 0

    def _on_message(self, data: bytes) -> None:
        try:
            body = json.loads(data)
            if body.get("from") != self.address:
                self._take(body)
        except (ValueError, KeyError, AttributeError, TypeError):
            logger.warning("gateway message unreadable length=%d", len(data))

    def _take(self, body: JSONObject) -> None:
        session_id = str(body["session"])
        if body["kind"] == "answer":
            self._take_answer(session_id, body)
        elif body["kind"] == "cancel":
            cancel = self._running.get((session_id, body["id"]))  # type: ignore[arg-type]
            if cancel is not None:
                cancel()
        elif body["kind"] == "end":
            for event in self._ended.get(session_id, ()):
                event.set()
        elif body["kind"] == "message":
            take = self._inboxes.get(session_id)
            message = body["message"]
            if take is not None and isinstance(message, dict):
                take(message)

    def _take_answer(self, session_id: str, body: JSONObject) -> None:
        owner, future = self._questions.get(str(body["id"]), ("", None))
        if future is None or future.done() or owner != session_id:
            return
        error, result = body.get("error"), body.get("result")
        future.set_result(
            Reply(
                id=str(body["id"]),
                result=result if isinstance(result, dict) else {},
                error=RpcError(**error) if isinstance(error, dict) else None,  # type: ignore[arg-type]
            )
        )


def _channel(address: str) -> str:
    return redis.key("gateway", "mail", address)


current: PerLoop[Mailbox] = PerLoop(Mailbox)
