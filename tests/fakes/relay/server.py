"""The relay fixture as an ASGI application: one server, one era, everything in the open."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.types import Receive, Scope, Send

from mcphub.core.types import JSONObject, JSONValue
from tests.fakes.mcp_servers import serving_app
from tests.fakes.relay import content
from tests.fakes.relay.exchange import STATE, Exchange, ProtocolError, QuestionError, Stream
from tests.fakes.relay.methods import Methods
from tests.waiting import eventually

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
CACHEABLE = ("tools/list", "prompts/list", "resources/", "server/discover")
KINDS = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}


@dataclass(eq=False)
class Listener:
    """Whoever gets what no request asked for: a GET stream, or a subscription."""

    wanted: JSONObject | None
    who: str
    id: JSONValue = None
    queue: asyncio.Queue[JSONObject] = field(default_factory=asyncio.Queue)

    def hears(self, method: str, params: JSONObject) -> bool:
        if self.wanted is None:
            return True
        if method in KINDS:
            return bool(self.wanted.get(KINDS[method]))
        if method == "notifications/resources/updated":
            return params.get("uri") in self.named("resourceSubscriptions")
        return method == "notifications/tasks" and params.get("taskId") in self.named("taskIds")

    def named(self, key: str) -> list[JSONValue]:
        found = (self.wanted or {}).get(key)
        return found if isinstance(found, list) else []

    def put(self, method: str, params: JSONObject) -> None:
        if self.wanted is not None:
            meta = params.get("_meta")
            named: JSONObject = {**(meta if isinstance(meta, dict) else {}), SUBSCRIPTION: self.id}
            params = {**params, "_meta": named}
        self.queue.put_nowait({"jsonrpc": "2.0", "method": method, "params": params})


class RelayServer:
    """Serves one era; `seen` holds every message that reached it."""

    def __init__(self, *, is_modern: bool) -> None:
        self.is_modern = is_modern
        self.methods = Methods()
        self.seen: list[JSONObject] = []
        self.url = ""
        self.loop: asyncio.AbstractEventLoop | None = None
        self._sessions: set[str] = set()
        self._listeners: set[Listener] = set()
        self._replies: dict[JSONValue, asyncio.Future[JSONObject]] = {}
        self._running: dict[tuple[str, JSONValue], asyncio.Task[None]] = {}

    @property
    def capabilities(self) -> JSONObject:
        extensions: JSONObject = {content.UI_EXTENSION: {"mimeTypes": [content.VIEW_TYPE]}}
        if self.is_modern:
            extensions[content.TASKS_EXTENSION] = {}
            return {**content.SERVER_CAPABILITIES, "extensions": extensions}
        return {
            **content.SERVER_CAPABILITIES,
            "tasks": content.CORE_TASKS,
            "extensions": extensions,
        }

    # --- what a test does to it

    def emit(self, method: str, params: JSONObject | None = None, *, who: str = "") -> None:
        """Tell whoever listens, or only who listens with one credential."""
        assert self.loop is not None
        self.loop.call_soon_threadsafe(self._emit, method, params or {}, who)

    def _emit(self, method: str, params: JSONObject, who: str) -> None:
        for listener in tuple(self._listeners):
            if listener.hears(method, params) and who in {"", listener.who}:
                listener.put(method, params)

    def move_task(self, task_id: str, status: str) -> None:
        assert self.loop is not None
        self.loop.call_soon_threadsafe(self.methods.tasks.all[task_id].move, status)

    def of(self, method: str) -> list[JSONObject]:
        return [message for message in tuple(self.seen) if message.get("method") == method]

    def until_seen(self, method: str, times: int = 1, seconds: float = 5.0) -> JSONObject:
        eventually(lambda: len(self.of(method)) >= times, seconds, f"{method} arrives")
        return self.of(method)[-1]

    def is_subscribed(self, uri: str) -> bool:
        if not self.is_modern:
            return uri in self.methods.subscribed
        listeners = tuple(self._listeners)
        return any(uri in listener.named("resourceSubscriptions") for listener in listeners)

    def is_watched(self, task_id: str) -> bool:
        return any(task_id in listener.named("taskIds") for listener in tuple(self._listeners))

    # --- HTTP

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        self.loop = asyncio.get_running_loop()
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        if scope["method"] == "POST":
            await self._post(headers, await body_of(receive), receive, send)
        elif self.is_modern:
            await answer(send, 405)
        elif headers.get("mcp-session-id") not in self._sessions:
            await answer(send, 404)
        elif scope["method"] == "GET":
            await self._listen(Listener(wanted=None, who=who_of(headers)), Stream(send), receive)
        else:
            self._sessions.discard(headers["mcp-session-id"])
            await answer(send, 200)

    async def _post(
        self, headers: dict[str, str], body: bytes, receive: Receive, send: Send
    ) -> None:
        message: JSONObject = json.loads(body)
        self.seen.append({**message, "x-headers": dict(headers)})
        method = message.get("method")
        if method is None:
            self._take_reply(message)
            await answer(send, 202)
        elif "id" not in message:
            self._take_notification(message, who_of(headers))
            await answer(send, 202)
        elif self.is_modern and method == "initialize":
            await self._refuse(message, send)
        elif method in {"initialize", "server/discover"}:
            await self._open(message, send)
        elif not self.is_modern and headers.get("mcp-session-id") not in self._sessions:
            await answer(send, 404)
        elif method == "subscriptions/listen":
            await self._subscribe(message, who_of(headers), Stream(send), receive)
        else:
            await self._run(message, who_of(headers), Stream(send), receive)

    async def _refuse(self, message: JSONObject, send: Send) -> None:
        error: JSONObject = {"code": -32022, "message": "Unsupported protocol version"}
        error["data"] = {"supported": [MODERN], "requested": LEGACY}
        await answer(send, 400, {"jsonrpc": "2.0", "id": message["id"], "error": error})

    async def _open(self, message: JSONObject, send: Send) -> None:
        common: JSONObject = {
            "capabilities": self.capabilities,
            "instructions": content.INSTRUCTIONS,
            **content.UNKNOWN,
        }
        if self.is_modern:
            found = stamped("server/discover", {**common, "supportedVersions": [MODERN]})
            await answer(send, 200, {"jsonrpc": "2.0", "id": message["id"], "result": found})
            return
        if message["method"] == "server/discover":
            error: JSONObject = {"code": -32601, "message": "Method not found"}
            await answer(send, 404, {"jsonrpc": "2.0", "id": message["id"], "error": error})
            return
        session = secrets.token_hex(8)
        self._sessions.add(session)
        found = {**common, "protocolVersion": LEGACY, "serverInfo": content.SERVER_INFO}
        body: JSONObject = {"jsonrpc": "2.0", "id": message["id"], "result": found}
        await answer(send, 200, body, [(b"mcp-session-id", session.encode())])

    # --- messages

    def _take_reply(self, message: JSONObject) -> None:
        reply = self._replies.get(message.get("id"))
        if reply is not None and not reply.done():
            result, error = message.get("result"), message.get("error")
            found = result if isinstance(result, dict) else {"error": error}
            reply.set_result(found)

    def _take_notification(self, message: JSONObject, who: str) -> None:
        params = message.get("params")
        if message["method"] == "notifications/cancelled" and isinstance(params, dict):
            running = self._running.get((who, params.get("requestId")))
            if running is not None:
                running.cancel()

    async def _run(self, message: JSONObject, who: str, stream: Stream, receive: Receive) -> None:
        exchange = Exchange(message, stream, self._replies, is_modern=self.is_modern, who=who)
        await stream.open([])
        work = asyncio.ensure_future(self._answer(exchange))
        self._running[who, exchange.id] = work
        gone = asyncio.ensure_future(until_gone(receive)) if self.is_modern else None
        try:
            await asyncio.wait(
                {work} if gone is None else {work, gone}, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            del self._running[who, exchange.id]
            for task in (work, gone):
                if task is not None:
                    task.cancel()
            await asyncio.gather(work, *([gone] if gone else []), return_exceptions=True)
        await stream.end()

    async def _answer(self, exchange: Exchange) -> None:
        reply: JSONObject = {"jsonrpc": "2.0", "id": exchange.id}
        try:
            found = await self.methods.answer(exchange)
            reply["result"] = stamped(exchange.method, found) if self.is_modern else found
        except ProtocolError as exc:
            reply["error"] = exc.error
        except QuestionError as exc:
            asked: JSONObject = {"resultType": "input_required", "requestState": STATE}
            reply["result"] = {**asked, "inputRequests": exc.asks}
        await exchange.stream.event(reply)

    async def _subscribe(
        self, message: JSONObject, who: str, stream: Stream, receive: Receive
    ) -> None:
        params = message.get("params")
        wanted = params.get("notifications") if isinstance(params, dict) else None
        filters = wanted if isinstance(wanted, dict) else {}
        listener = Listener(wanted=filters, who=who, id=message["id"])
        granted: JSONObject = {"notifications": listener.wanted}
        listener.put("notifications/subscriptions/acknowledged", granted)
        await self._listen(listener, stream, receive)

    async def _listen(self, listener: Listener, stream: Stream, receive: Receive) -> None:
        self._listeners.add(listener)
        await stream.open([])
        gone = asyncio.ensure_future(until_gone(receive))
        try:
            while not gone.done():
                event = asyncio.ensure_future(listener.queue.get())
                await asyncio.wait({event, gone}, return_when=asyncio.FIRST_COMPLETED)
                if event.done():
                    await stream.event(event.result())
                else:
                    event.cancel()
        finally:
            gone.cancel()
            self._listeners.discard(listener)


def stamped(method: str, result: JSONObject) -> JSONObject:
    """Return a result with the envelope of 2026-07-28."""
    meta = result.get("_meta")
    named: JSONObject = {**(meta if isinstance(meta, dict) else {})}
    named[SERVER_INFO] = content.SERVER_INFO
    found: JSONObject = {"resultType": "complete", **result, "_meta": named}
    if method.startswith(CACHEABLE):
        return {"ttlMs": 0, "cacheScope": "public", **found}
    return found


async def answer(
    send: Send, status: int, body: JSONObject | None = None, headers: Any = ()
) -> None:
    raw = b"" if body is None else json.dumps(body).encode()
    kind = [(b"content-type", b"application/json"), (b"content-length", str(len(raw)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*kind, *headers]})
    await send({"type": "http.response.body", "body": raw})


def who_of(headers: dict[str, str]) -> str:
    """Return the credential that a request shows."""
    return headers.get("authorization", "").removeprefix("Bearer ")


async def body_of(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += bytes(message.get("body", b""))
        if not message.get("more_body"):
            return body


async def until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@contextmanager
def serving_relay(*, is_modern: bool) -> Iterator[RelayServer]:
    """Serve on loopback from a thread until the block ends."""
    server = RelayServer(is_modern=is_modern)
    with serving_app(server, 0) as running:
        server.url = f"http://127.0.0.1:{running.port}/mcp"
        yield server
