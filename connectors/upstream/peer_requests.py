"""Requests that the server makes of us: what was declared is passed on, the rest is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mcp_types.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND

from connectors.upstream import jsonrpc
from connectors.upstream.contract import SessionListener
from mcphub.core.errors import HubError, ProtocolError, RpcError
from mcphub.core.types import JSONObject, JSONValue

MAX_OPEN = 32
CAPABILITY_OF = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}


class PeerRequests:
    """Answers in tasks of their own, at most MAX_OPEN at a time; `ping` never waits."""

    __slots__ = ("_answer", "_listener", "_open", "_tasks")

    def __init__(
        self, listener: SessionListener, answer: Callable[[JSONObject], Awaitable[None]]
    ) -> None:
        self._listener = listener
        self._answer = answer
        self._open: dict[JSONValue, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, message: JSONObject, request_id: int | None) -> None:
        """Start to answer; past MAX_OPEN the request is dropped and told in the timeline."""
        if len(self._tasks) >= MAX_OPEN:
            self._listener.on_step("peer_request_dropped", {"open": len(self._tasks)})
            return
        task = asyncio.get_running_loop().create_task(self._serve(message, request_id))
        self._tasks.add(task)
        self._open[_key(message.get("id"))] = task
        task.add_done_callback(self._tasks.discard)

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

    async def _serve(self, message: JSONObject, request_id: int | None) -> None:
        peer_id = message.get("id")
        try:
            result = await self._result(message, request_id)
            reply = jsonrpc.success(peer_id, result)
        except ProtocolError as exc:
            reply = jsonrpc.failure(peer_id, exc.rpc)
        except HubError as exc:
            reply = jsonrpc.failure(peer_id, RpcError(code=INTERNAL_ERROR, message=exc.detail))
        finally:
            self._open.pop(_key(peer_id), None)
        await self._answer(reply)

    async def _result(self, message: JSONObject, request_id: int | None) -> JSONObject:
        method = str(message["method"])
        if method == "ping":
            return {}
        capability = CAPABILITY_OF.get(method)
        if capability is None or capability not in self._listener.client_capabilities:
            raise ProtocolError(rpc_code=METHOD_NOT_FOUND, rpc_message="Method not found")
        return await self._listener.on_request(method, jsonrpc.params_of(message), request_id)


def _key(peer_id: JSONValue) -> str:
    return repr(peer_id)
