"""The client of 2026-07-28: no session, questions as results, one stream for what it listens to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import httpx

from mcphub.core.types import JSONObject, JSONValue
from tests.mcp_client.base import Filter, McpClient, Reply, events, headers_of

PREFIX = "io.modelcontextprotocol/"
INFO: JSONObject = {"name": "relay-inventory", "version": "1"}
NAMES = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
MOST_ROUNDS = 6


class ModernClient(McpClient):
    era = "modern"
    revision = "2026-07-28"

    async def open(self) -> None:
        self.opening = (await self.request("server/discover")).found

    async def request(
        self, method: str, params: JSONObject | None = None, **meta: JSONValue
    ) -> Reply:
        told = dict(params or {})
        whole = Reply()
        for _ in range(MOST_ROUNDS):
            message = self._message(method, told, meta)
            reply = await self._exchange(message)
            whole.notes += reply.notes
            whole.result, whole.error = reply.result, reply.error
            if reply.result is None or reply.result.get("resultType") != "input_required":
                return whole
            told = {**(params or {}), **self._answers(reply.result, whole)}
        raise AssertionError(f"{method} asked for more than {MOST_ROUNDS} rounds")

    def _answers(self, result: JSONObject, whole: Reply) -> JSONObject:
        """Answer the questions of a result; returns what the next sending carries."""
        answers: JSONObject = {}
        asked = result.get("inputRequests")
        for key, question in (asked if isinstance(asked, dict) else {}).items():
            assert isinstance(question, dict)
            params = question.get("params")
            whole.questions.append({"method": question["method"], "params": params or {}})
            found = params if isinstance(params, dict) else {}
            answers[key] = self.answer(str(question["method"]), found)
        following: JSONObject = {"inputResponses": answers} if answers else {}
        if "requestState" in result:
            following["requestState"] = result["requestState"]
        return following

    async def listen(self, wanted: Filter) -> None:
        told: JSONObject = {}
        if wanted.lists:
            told |= {f"{kind}ListChanged": True for kind in ("tools", "prompts", "resources")}
        if wanted.uris:
            told["resourceSubscriptions"] = list(wanted.uris)
        if wanted.task_ids:
            told["taskIds"] = list(wanted.task_ids)
        is_open = asyncio.Event()
        message = self._message("subscriptions/listen", {"notifications": told})
        self.stream(asyncio.ensure_future(self._listen(message, is_open)))
        async with asyncio.timeout(10):
            await is_open.wait()

    async def unlisten(self, uris: Sequence[str]) -> None:
        await self.end_streams()

    async def cancel_after(self, method: str, params: JSONObject, when: asyncio.Event) -> None:
        work = asyncio.ensure_future(self._exchange(self._message(method, params)))
        await when.wait()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    def _message(
        self, method: str, params: JSONObject, meta: dict[str, JSONValue] | None = None
    ) -> JSONObject:
        envelope: JSONObject = {
            f"{PREFIX}protocolVersion": self.revision,
            f"{PREFIX}clientCapabilities": self.capabilities,
            f"{PREFIX}clientInfo": INFO,
            **(meta or {}),
        }
        told: JSONObject = {**params, "_meta": envelope}
        return {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": told}

    def _headers(self, message: JSONObject) -> dict[str, str]:
        method, params = str(message["method"]), message["params"]
        key = "taskId" if method.startswith("tasks/") else NAMES.get(method, "")
        name = params.get(key) if isinstance(params, dict) else None
        return headers_of(
            {
                "MCP-Protocol-Version": self.revision,
                "Mcp-Method": method,
                "Mcp-Name": None if name is None else str(name),
            }
        )

    async def _exchange(self, message: JSONObject) -> Reply:
        reply = Reply()
        request = self.http.stream("POST", self.url, json=message, headers=self._headers(message))
        async with request as response:
            async for told in events(response):
                if "method" in told:
                    reply.notes.append(note_of(told))
                else:
                    result, error = told.get("result"), told.get("error")
                    reply.result = result if isinstance(result, dict) else None
                    reply.error = error if isinstance(error, dict) else None
        if reply.result is None and reply.error is None:
            raise AssertionError(f"{message['method']}: HTTP {response.status_code}, no answer")
        return reply

    async def _listen(self, message: JSONObject, is_open: asyncio.Event) -> None:
        timeout = httpx.Timeout(20.0, read=None)
        request = self.http.stream(
            "POST", self.url, json=message, headers=self._headers(message), timeout=timeout
        )
        async with request as response:
            async for told in events(response):
                if told.get("method") == "notifications/subscriptions/acknowledged":
                    is_open.set()
                elif "method" in told:
                    await self.notices.put(note_of(told))
                else:
                    await self.notices.put({"method": "end", "params": told})
                    is_open.set()


def note_of(message: JSONObject) -> JSONObject:
    params = message.get("params")
    return {"method": message["method"], "params": params if isinstance(params, dict) else {}}
