"""HTTP+SSE of 2024-11-05: one stream per session, which carries every answer; POSTs get 202.

The process that has the stream does the work; a POST that another process gets is handed over.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from mcp_types.jsonrpc import INVALID_REQUEST

from gateway import answering, handshake, mailbox, sessions, wire
from gateway.auth import Arrival
from gateway.http import STREAM, Answer
from gateway.sessions import Session, UnknownSessionError
from gateway.wire import Request, RpcFault, Unusable
from mcphub.api.errors import NotAcceptableError
from mcphub.core.errors import LimitError
from mcphub.core.types import JSONObject, JSONValue
from tenants.principal import Principal

MOST_AT_ONCE = 100
"""Requests of one session that are being answered."""


async def get(arrival: Arrival) -> None:
    """Open a session and serve its stream until somebody ends it."""
    answer = arrival.answer
    if not arrival.request.accepts(STREAM):
        raise NotAcceptableError(f"This is a stream ({STREAM}); the other transport is POST /mcp.")
    box = mailbox.current()
    await box.start()
    session = sessions.new(arrival.principal, arrival.endpoint, address=box.address)
    await sessions.store(session)
    await answer.open_stream()
    await answer.text_event(
        "endpoint", f"{arrival.endpoint.path}/sse/messages?session_id={session.id}"
    )
    held = _Held(session, arrival.principal, answer)
    with box.inbox(session.id, held.take):
        try:
            await handshake.hold(session, arrival)
        finally:
            await held.aclose()
            await sessions.end(session)


async def post(arrival: Arrival, value: JSONValue) -> None:
    """Hand one message to the stream of its session. Raises RpcFault, HubError."""
    ids = arrival.request.query().get("session_id", [])
    if len(ids) != 1:
        raise handshake.SessionNeededError
    session = await sessions.find(arrival.principal, arrival.endpoint, ids[0])
    message = wire.read_message(value)
    if isinstance(message, Unusable) or not isinstance(value, dict):
        raise RpcFault(INVALID_REQUEST, getattr(message, "reason", "One message per POST."))
    if isinstance(message, Request):
        if not await mailbox.current().message(session.address, session.id, value):
            raise UnknownSessionError
    else:
        await handshake.take(message, session, arrival.principal)
    await arrival.answer.empty(202)


class _Held:
    """The session whose stream this process has, and its requests that are being answered."""

    def __init__(self, session: Session, principal: Principal, answer: Answer) -> None:
        self._session = session
        self._principal = principal
        self._answer = answer
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, value: JSONObject) -> None:
        message = wire.read_message(value)
        if isinstance(message, Request):
            task = asyncio.get_running_loop().create_task(self._serve(message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """Leave what is running: its calls go on without anybody who waits for them."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, message: Request) -> None:
        exchange = handshake.exchange_of(message, self._session, self._principal, self._answer)
        if len(self._tasks) > MOST_AT_ONCE:
            error = LimitError("Too many requests of this session are running.")
            await self._answer.event(wire.failure(message.id, wire.rpc_error_of(error)))
            return
        async with answering.running([exchange]) as tasks:
            await asyncio.wait(tasks)
            if tasks[0].cancelled():
                return
            response = tasks[0].result()
            if exchange.session is not None:
                self._session = replace(exchange.session, address=self._session.address)
            await self._answer.event(response.message)
