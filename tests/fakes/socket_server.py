"""An MCP server over a WebSocket: one JSON-RPC message per frame, subprotocol "mcp"."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from websockets.asyncio.server import ServerConnection, serve
from websockets.typing import Subprotocol

from tests.fakes.sdk_tools import DemoServer


@contextmanager
def socket_server(demo: DemoServer) -> Iterator[str]:
    """Serve from a thread until the block ends; returns the address."""
    ready: asyncio.Queue[None] = asyncio.Queue()
    found: list[str] = []
    started = threading.Event()
    loop = asyncio.new_event_loop()

    async def run() -> None:
        async with serve(
            lambda wire: _speak(wire, demo), "127.0.0.1", 0, subprotocols=[Subprotocol("mcp")]
        ) as server:
            found.append(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp")
            started.set()
            await ready.get()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),), daemon=True)
    thread.start()
    if not started.wait(10):
        raise RuntimeError("the server did not start")
    try:
        yield found[0]
    finally:
        loop.call_soon_threadsafe(ready.put_nowait, None)
        thread.join(10)
        loop.close()


async def _speak(wire: ServerConnection, demo: DemoServer) -> None:
    """Run one session of the server between two in-memory streams."""
    to_server, inbox = anyio.create_memory_object_stream[SessionMessage | Exception](16)
    outbox, from_server = anyio.create_memory_object_stream[SessionMessage](16)

    async def read() -> None:
        async for frame in wire:
            await to_server.send(SessionMessage(jsonrpc_message_adapter.validate_json(frame)))
        await to_server.aclose()

    async def write() -> None:
        async for one in from_server:
            await wire.send(one.message.model_dump_json(by_alias=True, exclude_unset=True))

    streams = to_server, inbox, outbox, from_server
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        tasks.start_soon(read)
        await demo.server.run(inbox, outbox, demo.server.create_initialization_options())
        tasks.cancel_scope.cancel()
    for stream in streams:
        await stream.aclose()
