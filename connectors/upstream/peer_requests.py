"""Requests that the server makes of us: what was declared is passed on, the rest is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mcp_types.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND

from connectors.upstream import jsonrpc
from connectors.upstream.calls import Call
from connectors.upstream.contract import SessionListener
from mcphub.core.errors import HubError, ProtocolError, RpcError
from mcphub.core.types import JSONObject, JSONValue

MAX_OPEN = 128
CAPABILITY_OF = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
"""Requests that a person or an app answers, each with the capability that offers it."""


class PeerRequests:
    """Answers in tasks of their own, at most MAX_OPEN at a time; `ping` never waits."""

    __slots__ = ("_answer", "_listener", "_of_call", "_open", "_tasks")

    def __init__(
        self, listener: SessionListener, answer: Callable[[JSONObject], Awaitable[None]]
    ) -> None:
        self._listener = listener
        self._answer = answer
        self._open: dict[JSONValue, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._of_call: dict[int, set[asyncio.Task[None]]] = {}

    def take(self, message: JSONObject, call: Call | None) -> None:
        """Start to answer; past MAX_OPEN the request is dropped and told in the timeline."""
        if len(self._tasks) >= MAX_OPEN:
            self._listener.on_step("peer_request_dropped", {"open": len(self._tasks)})
            return
        task = asyncio.get_running_loop().create_task(self._serve(message, call))
        self._tasks.add(task)
        self._open[_key(message.get("id"))] = task
        task.add_done_callback(self._tasks.discard)
        if call is not None:
            self._of_call.setdefault(call.id, set()).add(task)

    def end_call(self, call: Call) -> None:
        """Stop answering what was asked in the course of a call that is over."""
        for task in self._of_call.pop(call.id, ()):
            task.cancel()

    def cancel(self, peer_id: JSONValue) -> None:
        """Stop answering: the server cancelled its request."""
        task = self._open.pop(_key(peer_id), None)
        if task is not None:
            task.cancel()

    async def stop(self) -> None:
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, message: JSONObject, call: Call | None) -> None:
        peer_id = message.get("id")
        try:
            result = await self._result(message, call)
            reply = jsonrpc.success(peer_id, result)
        except ProtocolError as exc:
            reply = jsonrpc.failure(peer_id, exc.rpc)
        except HubError as exc:
            reply = jsonrpc.failure(peer_id, RpcError(code=INTERNAL_ERROR, message=exc.detail))
        finally:
            self._open.pop(_key(peer_id), None)
        await self._answer(reply)

    async def _result(self, message: JSONObject, call: Call | None) -> JSONObject:
        method = str(message["method"])
        if method == "ping":
            return {}
        capability = CAPABILITY_OF.get(method)
        if capability is None or capability not in self._listener.client_capabilities:
            raise ProtocolError(rpc_code=METHOD_NOT_FOUND, rpc_message="Method not found")
        params = jsonrpc.params_of(message)
        if call is None:
            return await self._listener.on_request(method, params, None)
        call.pause()
        try:
            return await self._listener.on_request(method, params, call.request)
        finally:
            call.go_on()
            if (task := asyncio.current_task()) is not None:
                self._of_call.get(call.id, set()).discard(task)


def _key(peer_id: JSONValue) -> str:
    return repr(peer_id)
