"""One request to the relay fixture: its stream, what it tells and what it asks meanwhile."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

from starlette.types import Send

from mcphub.core.types import JSONObject, JSONValue
from tests.fakes.relay.content import ERROR

ANSWER_SECONDS = 15.0
STATE = 'é "{\\u0000}" opaque\t'
"""A request state that any rewriting would change."""


class QuestionError(Exception):
    """The way of 2026-07-28 to ask: end the request, be asked again with the answers."""

    def __init__(self, asks: JSONObject) -> None:
        super().__init__()
        self.asks = asks


class ProtocolError(Exception):
    """Answer with a JSON-RPC error."""

    def __init__(self, error: JSONObject | None = None) -> None:
        super().__init__()
        self.error = ERROR if error is None else error


class Stream:
    """A response of server-sent events."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._is_open = False

    async def open(self, headers: list[tuple[bytes, bytes]]) -> None:
        if not self._is_open:
            self._is_open = True
            kind = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
            head = {"type": "http.response.start", "status": 200, "headers": [*kind, *headers]}
            await self._send(head)
            await self._send(part(b": open\n\n"))

    async def event(self, message: JSONObject) -> None:
        body = b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n"
        await self._send(part(body))

    async def end(self) -> None:
        await self._send(part(b"", is_last=True))


def part(body: bytes, *, is_last: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": not is_last}


class Exchange:
    """A request, and the stream of its answer."""

    _ids = itertools.count(9001)

    def __init__(
        self,
        message: JSONObject,
        stream: Stream,
        replies: dict[JSONValue, asyncio.Future[JSONObject]],
        *,
        is_modern: bool,
        who: str,
    ) -> None:
        params = message.get("params")
        self.params: JSONObject = params if isinstance(params, dict) else {}
        self.method = str(message["method"])
        self.id = message["id"]
        self.is_modern = is_modern
        self.who = who
        self.stream = stream
        self._replies = replies

    @property
    def arguments(self) -> JSONObject:
        found = self.params.get("arguments")
        return found if isinstance(found, dict) else {}

    @property
    def meta(self) -> JSONObject:
        found = self.params.get("_meta")
        return found if isinstance(found, dict) else {}

    async def notify(self, method: str, params: JSONObject) -> None:
        await self.stream.event({"jsonrpc": "2.0", "method": method, "params": params})

    async def ask(self, questions: dict[str, tuple[str, JSONObject]]) -> JSONObject:
        """Ask in the way of the era; returns the answers by the key of their question."""
        if not self.is_modern:
            return {key: await self._ask(*question) for key, question in questions.items()}
        answers = self.params.get("inputResponses")
        if isinstance(answers, dict) and set(questions) <= set(answers):
            if self.params.get("requestState") != STATE:
                raise ProtocolError({"code": -32602, "message": "the request state is damaged"})
            return answers
        raise QuestionError(
            {key: {"method": method, "params": told} for key, (method, told) in questions.items()}
        )

    async def _ask(self, method: str, params: JSONObject) -> JSONObject:
        own_id = next(self._ids)
        reply = asyncio.get_running_loop().create_future()
        self._replies[own_id] = reply
        request: JSONObject = {"jsonrpc": "2.0", "id": own_id, "method": method, "params": params}
        await self.stream.event(request)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answered: JSONObject = await reply
        finally:
            del self._replies[own_id]
        return answered
