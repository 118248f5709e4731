"""A raw asyncio MCP server on loopback: it writes bytes, so it can misbehave in any way.

`RawServer` speaks the handshake era correctly; a scenario is a subclass that overrides one of the
`on_…` methods. `counts` and `requests` say what the client did and did not send.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from mcphub.core.types import JSONObject, JSONValue

Headers: TypeAlias = "Sequence[tuple[str, str | bytes]]"
ECHO: JSONObject = {"name": "echo", "description": "Echo", "inputSchema": {"type": "object"}}


@dataclass(frozen=True, slots=True)
class Request:
    """What reached the server."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> JSONObject:
        try:
            message = json.loads(self.body)
        except ValueError:
            return {}
        return message if isinstance(message, dict) else {}

    @property
    def rpc_method(self) -> str:
        return str(self.message.get("method", ""))

    @property
    def id(self) -> JSONValue:
        return self.message.get("id")

    @property
    def params(self) -> JSONObject:
        params = self.message.get("params")
        return params if isinstance(params, dict) else {}

    @property
    def arguments(self) -> JSONObject:
        arguments = self.params.get("arguments")
        return arguments if isinstance(arguments, dict) else {}


class Wire:
    """The connection of one request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, raw: bytes) -> None:
        self._writer.write(raw)
        await self._writer.drain()

    async def answer(
        self,
        body: JSONValue | bytes = b"",
        *,
        status: int = 200,
        content_type: str | None = "application/json",
        headers: Headers = (),
    ) -> None:
        """Send a whole response; values may be bytes that no client library would send."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        await self.send(head(status, content_type, headers, length=len(raw)) + raw)

    async def open_stream(self, headers: Headers = ()) -> None:
        await self.send(head(200, "text/event-stream", headers))

    async def event(self, message: JSONValue | bytes, **fields: str | int) -> None:
        await self.send(event(message, **fields))

    async def until_gone(self, seconds: float = 30.0) -> bool:
        """Wait until the client ends the connection; False when it did not in time."""
        try:
            async with asyncio.timeout(seconds):
                while await self._reader.read(4096):
                    pass
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        return True

    def reset(self) -> None:
        """End the connection with a TCP reset."""
        self._writer.transport.abort()


def head(
    status: int, content_type: str | None, headers: Headers = (), *, length: int | None = None
) -> bytes:
    lines: list[bytes] = [f"HTTP/1.1 {status} X".encode()]
    if content_type:
        lines.append(f"Content-Type: {content_type}".encode())
    if length is not None:
        lines.append(f"Content-Length: {length}".encode())
    lines.append(b"Connection: close")
    for name, value in headers:
        lines.append(
            name.encode() + b": " + (value if isinstance(value, bytes) else value.encode())
        )
    return b"\r\n".join(lines) + b"\r\n\r\n"


def event(message: JSONValue | bytes, **fields: str | int) -> bytes:
    """Return one server-sent event; `fields` are its other lines, such as id= and retry=."""
    lines = "".join(f"{name}: {value}\n" for name, value in fields.items()).encode()
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return lines + b"data: " + body + b"\n\n"


def result(request_id: JSONValue, value: JSONValue) -> JSONObject:
    return {"jsonrpc": "2.0", "id": request_id, "result": value}


def error(
    request_id: JSONValue, code: int, message: str = "no", data: JSONValue = None
) -> JSONObject:
    body: JSONObject = {"code": code, "message": message}
    if data is not None:
        body["data"] = data
    return {"jsonrpc": "2.0", "id": request_id, "error": body}


def text_result(text: str = "ok") -> JSONObject:
    return {"content": [{"type": "text", "text": text}]}


def note(method: str, params: JSONObject | None = None) -> JSONObject:
    return {"jsonrpc": "2.0", "method": method, "params": params or {}}


@dataclass
class RawServer:
    """Well-behaved server of the handshake era, one request per connection."""

    session_id: ClassVar[str | bytes] = "session-1"
    version: ClassVar[str] = "2025-11-25"
    tools: ClassVar[list[JSONValue]] = [ECHO]
    capabilities: ClassVar[JSONObject] = {"tools": {"listChanged": True}}

    counts: Counter[str] = field(default_factory=Counter)
    requests: list[Request] = field(default_factory=list)
    url: str = ""
    arrived: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def serve(self, request: Request, wire: Wire) -> None:
        """Answer one request; override it to decide over everything."""
        await self.route(request, wire)

    async def route(self, request: Request, wire: Wire) -> None:
        if request.method == "GET":
            await self.on_get(request, wire)
        elif request.method == "DELETE":
            await self.on_delete(request, wire)
        elif "method" not in request.message:
            await wire.answer(status=202, content_type=None)
        else:
            await self.on_message(request, wire)

    async def on_message(self, request: Request, wire: Wire) -> None:
        match request.rpc_method:
            case "server/discover":
                await self.on_discover(request, wire)
            case "initialize":
                await self.on_initialize(request, wire)
            case "tools/list":
                await self.on_list_tools(request, wire)
            case "tools/call":
                await self.on_call(request, wire)
            case method if method.startswith("notifications/"):
                await self.on_notification(request, wire)
            case _:
                await wire.answer(error(request.id, -32601))

    async def on_discover(self, request: Request, wire: Wire) -> None:
        await wire.answer(error(request.id, -32601), status=404)

    async def on_initialize(self, request: Request, wire: Wire) -> None:
        headers = [("Mcp-Session-Id", self.session_id)] if self.session_id else []
        await wire.answer(result(request.id, self.initialize_result()), headers=headers)

    def initialize_result(self) -> JSONObject:
        return {
            "protocolVersion": self.version,
            "capabilities": self.capabilities,
            "serverInfo": {"name": "raw", "version": "0"},
            "instructions": "none",
        }

    async def on_notification(self, request: Request, wire: Wire) -> None:
        await wire.answer(status=202, content_type=None)

    async def on_list_tools(self, request: Request, wire: Wire) -> None:
        await wire.answer(result(request.id, {"tools": self.tools}))

    async def on_call(self, request: Request, wire: Wire) -> None:
        await wire.answer(result(request.id, text_result()))

    async def on_get(self, request: Request, wire: Wire) -> None:
        await wire.answer(status=405, content_type=None)

    async def on_delete(self, request: Request, wire: Wire) -> None:
        await wire.answer(content_type=None)

    # --- what reached it

    async def record(self, request: Request) -> None:
        async with self.arrived:
            self.requests.append(request)
            self.counts[f"{request.method} {request.rpc_method}".strip()] += 1
            self.arrived.notify_all()

    async def saw(self, key: str, times: int = 1, seconds: float = 5.0) -> None:
        """Wait until a kind of request, such as "POST tools/call", came `times` times."""
        async with asyncio.timeout(seconds), self.arrived:
            await self.arrived.wait_for(lambda: self.counts[key] >= times)

    async def note_gone(self) -> None:
        """Count a client that ended its connection."""
        async with self.arrived:
            self.counts["gone"] += 1
            self.arrived.notify_all()

    async def until_all_gone(self, times: int, seconds: float = 5.0) -> None:
        await self.saw("gone", times, seconds)

    def of(self, rpc_method: str) -> list[Request]:
        return [request for request in self.requests if request.rpc_method == rpc_method]


async def read_request(reader: asyncio.StreamReader) -> Request:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    pairs = (line.split(":", 1) for line in lines if ":" in line)
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    size = int(headers.get("content-length", 0))
    return Request(method, path, headers, await reader.readexactly(size) if size else b"")


@asynccontextmanager
async def serving(server: RawServer) -> AsyncIterator[RawServer]:
    """Serve on a free loopback port of this event loop; sets and yields `server.url`."""
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError), closing(writer):
            request = await read_request(reader)
            await server.record(request)
            await server.serve(request, Wire(reader, writer))
            await writer.drain()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(handle(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        task.add_done_callback(lambda _: writer.close())  # also when it never began

    listener = await asyncio.start_server(accept, "127.0.0.1", 0, limit=1 << 20)
    port = listener.sockets[0].getsockname()[1]
    server.url = f"http://127.0.0.1:{port}/mcp"
    try:
        yield server
    finally:
        listener.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the closed connections let go of their sockets


@contextmanager
def serving_in_thread(server: RawServer) -> Iterator[RawServer]:
    """Serve from a thread of its own, for tests that drive other processes."""
    ready, stop = threading.Event(), threading.Event()

    async def live() -> None:
        server.arrived = asyncio.Condition()
        async with serving(server):
            ready.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(live()), daemon=True)
    thread.start()
    if not ready.wait(5):
        raise RuntimeError("the raw server did not start")
    try:
        yield server
    finally:
        stop.set()
        thread.join(5)
