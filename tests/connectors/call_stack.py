"""A worker and a web side in one event loop: the real ledger, lanes and replies, scripted sessions.

The sessions are scripted because the tests that use them are about the hub's own bookkeeping, and
need to stop a server between two bytes.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from connectors.models import Connection, ToolCall
from connectors.queue import (
    LaneReader,
    WorkerLoad,
    announce_worker,
    lane_writer,
    tick_pipeline,
)
from connectors.queue.lanes import lane_of
from connectors.selectors import ConnectionView
from connectors.selectors.hot import connection_view
from connectors.services import notices, replies, tool_calls
from connectors.services.execution import Executor
from connectors.services.tool_calls import CallRequest, Submitted
from connectors.upstream.contract import UpstreamRequest
from mcphub.core.offload import DatabaseThreads
from mcphub.core.types import JSONObject
from tenants.principal import Principal

Answer = Callable[[UpstreamRequest], Awaitable[JSONObject]]
RESULT: JSONObject = {"content": [{"type": "text", "text": "ok"}], "x-odd": [None]}


async def answer_at_once(request: UpstreamRequest) -> JSONObject:
    return RESULT


class Gate:
    """An answer that waits until the test lets it go, and tells when it was asked for."""

    def __init__(self, result: JSONObject = RESULT) -> None:
        self.is_asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self._result = result

    async def __call__(self, request: UpstreamRequest) -> JSONObject:
        self.is_asked.set()
        await self.may_answer.wait()
        return self._result


class ScriptedSessions:
    """Sessions of one worker; counts what reaches the server, by call."""

    def __init__(self, worker: str, answer: Answer = answer_at_once) -> None:
        self.worker = worker
        self.answer = answer
        self.executions: Counter[uuid.UUID | None] = Counter()
        self.requests: list[UpstreamRequest] = []
        self.is_closed = False
        self.opening: Callable[[], Awaitable[None]] | None = None

    def is_open(self, connection_id: uuid.UUID) -> bool:
        return not self.is_closed

    async def ensure_open(self, connection_id: uuid.UUID) -> None:
        if self.opening is not None:
            await self.opening()
        self.is_closed = False

    def declared(self, connection_id: uuid.UUID, relay: JSONObject | None) -> JSONObject:
        return {"elicitation": {"form": {}, "url": {}}}

    async def request(self, connection_id: uuid.UUID, request: UpstreamRequest) -> JSONObject:
        self.executions[request.call_id] += 1
        self.requests.append(request)
        return await self.answer(request)


class Stack:
    """What a test drives."""

    def __init__(self, principal: Principal, connection: ConnectionView) -> None:
        self.principal = principal
        self.connection = connection
        self.sessions = ScriptedSessions("w1")
        self.executor = Executor(self.sessions)
        self.threads = DatabaseThreads(name="test", threads=1)
        self._reading: asyncio.Task[None] | None = None
        self._reader = LaneReader("w1")

    async def start_worker(self) -> None:
        """Register the worker and let it read its lane."""
        await self.register()
        self._reading = asyncio.get_running_loop().create_task(self._read())

    async def register(self) -> None:
        """Register the worker; it does not read its lane."""
        await announce_worker(WorkerLoad(worker=self.sessions.worker))

    async def lane_length(self, worker: str) -> int:
        await tick_pipeline().flush()
        length: int = await tick_pipeline().call("XLEN", lane_of(worker))
        return length

    async def submit(self, arguments: JSONObject | None = None, **fields: object) -> Submitted:
        return await tool_calls.submit(
            self.principal, self.connection, call_request(arguments, **fields)
        )

    async def row(self, call_id: uuid.UUID) -> ToolCall:
        return await self.threads.run(ToolCall.unscoped.get, pk=call_id)

    async def aclose(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await self._reader.aclose()
        await self.executor.drain(0)
        self.threads.close()

    async def _read(self) -> None:
        async for entry in self._reader:
            self.executor.on_entry(entry)


def call_request(arguments: JSONObject | None = None, **fields: object) -> CallRequest:
    params: JSONObject = {"name": "search", "arguments": arguments or {"q": "x"}}
    return CallRequest(**{"method": "tools/call", "target": "search", "params": params, **fields})  # type: ignore[arg-type]  # a test's own keyword arguments


def view_of(connection: Connection) -> ConnectionView:
    return connection_view(connection)


@asynccontextmanager
async def closing_loop_objects() -> AsyncIterator[None]:
    """Close what the services made for the running loop."""
    try:
        yield
    finally:
        for kept in (replies.current, notices.current):
            listening = kept.take()
            if listening is not None:
                await listening.aclose()
        lane_writer.take()
        pipeline = tick_pipeline.take()
        if pipeline is not None:
            await pipeline.aclose()
