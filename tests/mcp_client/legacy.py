"""The client of the handshake era: a session, its GET stream, questions as requests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import httpx

from mcphub.core.types import JSONObject, JSONValue
from tests.mcp_client.base import Filter, McpClient, Reply, events, headers_of

INFO: JSONObject = {"name": "relay-inventory", "version": "1", "title": "Relay inventory"}


class LegacyClient(McpClient):
    era = "legacy"
    revision = "2025-11-25"
    session: str | None = None

    async def open(self) -> None:
        params: JSONObject = {"protocolVersion": self.revision, "clientInfo": INFO}
        message = self._message("initialize", {**params, "capabilities": self.capabilities})
        response = await self.http.post(self.url, json=message)
        assert response.status_code == 200, response.text
        self.session = response.headers.get("mcp-session-id")
        async for answer in events(response):
            result = answer.get("result")
            assert isinstance(result, dict), answer
            self.opening = result
        await self.notify("notifications/initialized")
        is_open = asyncio.Event()
        self.stream(asyncio.ensure_future(self._get(is_open)))
        async with asyncio.timeout(10):
            await is_open.wait()

    async def notify(self, method: str, params: JSONObject | None = None) -> None:
        await self._post({"jsonrpc": "2.0", "method": method, "params": params or {}})

    async def request(
        self, method: str, params: JSONObject | None = None, **meta: JSONValue
    ) -> Reply:
        message = self._message(method, params or {}, meta)
        return await self._exchange(message)

    async def listen(self, wanted: Filter) -> None:
        for uri in wanted.uris:
            (await self.request("resources/subscribe", {"uri": uri})).expect()

    async def unlisten(self, uris: Sequence[str]) -> None:
        for uri in uris:
            (await self.request("resources/unsubscribe", {"uri": uri})).expect()

    async def cancel_after(self, method: str, params: JSONObject, when: asyncio.Event) -> None:
        message = self._message(method, params)
        work = asyncio.ensure_future(self._exchange(message))
        await when.wait()
        told: JSONObject = {"requestId": message["id"], "reason": "enough"}
        await self.notify("notifications/cancelled", told)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    @property
    def _headers(self) -> dict[str, str]:
        return headers_of({"Mcp-Session-Id": self.session, "MCP-Protocol-Version": self.revision})

    def _message(
        self, method: str, params: JSONObject, meta: dict[str, JSONValue] | None = None
    ) -> JSONObject:
        told = {**params, "_meta": dict(meta)} if meta else params
        return {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": told}

    async def _post(self, message: JSONObject) -> None:
        response = await self.http.post(self.url, json=message, headers=self._headers)
        assert response.status_code == 202, (response.status_code, response.text)

    async def _exchange(self, message: JSONObject) -> Reply:
        reply = Reply()
        request = self.http.stream("POST", self.url, json=message, headers=self._headers)
        async with request as response:
            async for told in events(response):
                if "method" in told:
                    await self._take(told, reply)
                elif told.get("id") == message["id"]:
                    result, error = told.get("result"), told.get("error")
                    reply.result = result if isinstance(result, dict) else None
                    reply.error = error if isinstance(error, dict) else None
        if reply.result is None and reply.error is None:
            raise AssertionError(f"{message['method']}: HTTP {response.status_code}, no answer")
        return reply

    async def _take(self, told: JSONObject, reply: Reply | None) -> None:
        """Take what the server sends of its own: a question, or a notification."""
        params = told.get("params")
        params = params if isinstance(params, dict) else {}
        if "id" in told:
            question: JSONObject = {"method": told["method"], "params": params}
            if reply is not None:
                reply.questions.append(question)
            answer: JSONObject = {"jsonrpc": "2.0", "id": told["id"]}
            answer["result"] = self.answer(str(told["method"]), params)
            await self._post(answer)
        elif reply is not None:
            reply.notes.append({"method": told["method"], "params": params})
        else:
            await self.notices.put({"method": told["method"], "params": params})

    async def _get(self, is_open: asyncio.Event) -> None:
        timeout = httpx.Timeout(20.0, read=None)
        while True:
            request = self.http.stream("GET", self.url, headers=self._headers, timeout=timeout)
            async with request as response:
                is_open.set()
                if response.status_code != 200:
                    return
                async for told in events(response):
                    await self._take(told, None)
