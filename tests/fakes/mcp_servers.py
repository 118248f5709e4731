"""Real MCP servers of the suite on free loopback ports, each in a thread: both eras, SSE, JSON."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

import uvicorn
from mcp.server.sse import SseServerTransport
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.fakes.event_memory import EventMemory
from tests.fakes.sdk_tools import DemoServer


class Kind(Enum):
    """Which server to run."""

    DUAL = "dual"
    DUAL_JSON = "dual-json"
    LEGACY = "legacy"
    LEGACY_JSON = "legacy-json"
    STATELESS = "stateless"
    MODERN = "modern"
    SSE = "sse"
    RESUMABLE = "resumable"


@dataclass(kw_only=True)
class RunningServer:
    """A server that runs; `demo` is shared with its thread."""

    url: str
    demo: DemoServer
    loop: asyncio.AbstractEventLoop

    def announce_tools_changed(self) -> None:
        asyncio.run_coroutine_threadsafe(self.demo.announce_tools_changed(), self.loop).result(5)


def app_for(kind: Kind, demo: DemoServer, *, post_status: int = 405) -> ASGIApp:
    """Return the ASGI application; an SSE-only one answers POST with `post_status`."""
    if kind is Kind.SSE:
        return sse_only(demo, post_status)
    app = demo.server.streamable_http_app(
        json_response=kind in {Kind.DUAL_JSON, Kind.LEGACY_JSON},
        stateless_http=kind is Kind.STATELESS,
        event_store=EventMemory() if kind is Kind.RESUMABLE else None,
        retry_interval=100 if kind is Kind.RESUMABLE else None,
    )
    if kind in {Kind.LEGACY, Kind.LEGACY_JSON, Kind.STATELESS, Kind.RESUMABLE}:
        return OneEra(app, is_modern=False)
    return OneEra(app, is_modern=True) if kind is Kind.MODERN else app


def sse_only(demo: DemoServer, post_status: int) -> ASGIApp:
    """Return a server of 2024-11-05: no Streamable HTTP at all."""
    transport = SseServerTransport("/messages/")
    server = demo.server

    async def endpoint(request: Request) -> Response:
        if request.method == "POST":
            return PlainTextResponse("no", status_code=post_status)
        async with transport.connect_sse(request.scope, request.receive, request._send) as (
            read,
            write,
        ):
            await server.run(read, write, server.create_initialization_options())
        return Response()

    return Starlette(
        routes=[
            Route("/mcp", endpoint, methods=["GET", "POST"]),
            Mount("/messages/", app=transport.handle_post_message),
        ]
    )


class OneEra:
    """Refuses the requests of the other era as servers of one era do."""

    def __init__(self, app: ASGIApp, *, is_modern: bool) -> None:
        self._app = app
        self._is_modern = is_modern

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._is_foreign(scope):
            await self._refuse(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _is_foreign(self, scope: Scope) -> bool:
        headers = dict(scope["headers"])
        version = headers.get(MCP_PROTOCOL_VERSION_HEADER.encode(), b"").decode()
        return (version in MODERN_PROTOCOL_VERSIONS) is not self._is_modern

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = json.loads(await Request(scope, receive).body() or b"{}").get("id")
        error: dict[str, object] = {"code": -32600, "message": "Missing session ID"}
        if self._is_modern:
            supported = {"supported": list(MODERN_PROTOCOL_VERSIONS), "requested": "?"}
            error = {"code": -32022, "message": "Unsupported version", "data": supported}
        body = json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error})
        response = Response(body, status_code=400, media_type="application/json")
        await response(scope, receive, send)


class _Announcing(uvicorn.Server):
    """Says when it serves, or that it never will."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                host="127.0.0.1",
                port=port,
                log_level="critical",
                ws="none",
                lifespan="auto",
                timeout_graceful_shutdown=1,
            )
        )
        self.ready = threading.Event()
        self.loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: object = None) -> None:
        self.loop = asyncio.get_running_loop()
        await super().startup()
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End streams too that outlast the server, whose sockets would be left open."""
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)

    @property
    def port(self) -> int:
        port: int = self.servers[0].sockets[0].getsockname()[1]
        return port


@contextmanager
def serving_app(app: ASGIApp, port: int = 0) -> Iterator[_Announcing]:
    """Serve an ASGI application on loopback from a thread until the block ends."""
    server = _Announcing(app, port)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    if not server.ready.wait(10):
        raise RuntimeError("the server did not start")
    try:
        yield server
    finally:
        server.should_exit = True
        thread.join(10)


@contextmanager
def running(
    kind: Kind = Kind.DUAL, *, demo: DemoServer | None = None, post_status: int = 405, port: int = 0
) -> Iterator[RunningServer]:
    """Run one server; give the same `demo` and port to bring it back after a restart."""
    demo = demo or DemoServer()
    with serving_app(app_for(kind, demo, post_status=post_status), port) as server:
        assert server.loop is not None
        yield RunningServer(url=f"http://127.0.0.1:{server.port}/mcp", demo=demo, loop=server.loop)
