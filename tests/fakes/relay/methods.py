"""What the relay fixture answers to each request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mcphub.core.types import JSONObject, JSONValue
from tests.fakes.relay import content
from tests.fakes.relay.exchange import Exchange, ProtocolError
from tests.fakes.relay.tasks import Tasks

Handler = Callable[[Exchange], Awaitable[JSONObject]]
QUESTIONS: dict[str, dict[str, tuple[str, JSONObject]]] = {
    "ask_form": {"who": ("elicitation/create", content.FORM)},
    "ask_url": {"pay": ("elicitation/create", content.PAGE)},
    "sample": {"say": ("sampling/createMessage", content.SAMPLE)},
    "sample_tools": {"say": ("sampling/createMessage", content.SAMPLE_TOOLS)},
    "roots": {"where": ("roots/list", {"_meta": content.TRACE})},
    "two_questions": {
        "who": ("elicitation/create", content.FORM),
        "say": ("sampling/createMessage", content.SAMPLE),
    },
}
PAGE_SIZE = 5


class Methods:
    """The lists, which tests change, and the handlers."""

    def __init__(self) -> None:
        self.tools: list[JSONValue] = [content.tool(name) for name in content.TOOL_NAMES]
        self.prompts: list[JSONValue] = [content.prompt(name) for name in ("greet", "part")]
        self.resources: list[JSONValue] = content.resources()
        self.tasks = Tasks()
        self.cancelled = 0
        self.waiting = 0
        self.level = ""
        self.subscribed: set[str] = set()
        self._common: dict[str, Handler] = {
            "tools/list": lambda exchange: page(exchange, "tools", self.tools),
            "prompts/list": lambda exchange: page(exchange, "prompts", self.prompts),
            "resources/list": lambda exchange: page(exchange, "resources", self.resources),
            "resources/templates/list": lambda exchange: page(
                exchange, "resourceTemplates", content.TEMPLATES
            ),
            "tools/call": self._call,
            "resources/read": self._read,
            "prompts/get": self._prompt,
            "completion/complete": self._complete,
            "tasks/get": self.tasks.get,
            "tasks/cancel": self.tasks.cancel,
        }
        self._modern: dict[str, Handler] = {"tasks/update": self.tasks.update}
        self._legacy: dict[str, Handler] = {
            "ping": self._empty,
            "logging/setLevel": self._set_level,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "tasks/result": self.tasks.result,
            "tasks/list": self.tasks.list,
        }

    async def answer(self, exchange: Exchange) -> JSONObject:
        era = self._modern if exchange.is_modern else self._legacy
        handler = self._common.get(exchange.method) or era.get(exchange.method)
        if handler is None:
            raise ProtocolError({"code": -32601, "message": "Method not found"})
        return await handler(exchange)

    async def _call(self, exchange: Exchange) -> JSONObject:
        name = str(exchange.params.get("name"))
        if self.tasks.wanted(exchange):
            return self.tasks.create(exchange)
        if name in QUESTIONS:
            return told(await exchange.ask(QUESTIONS[name]))
        match name:
            case "tool_error":
                failed: JSONObject = {"type": "text", "text": "it failed", "_meta": content.TRACE}
                return {"content": [failed], "isError": True, **content.UNKNOWN}
            case "protocol_error":
                raise ProtocolError
            case "progress":
                await self._progress(exchange)
            case "log":
                await self._log(exchange)
            case "whoami":
                return await self._whoami(exchange)
            case "wait":
                await self._wait()
        return content.call_result(exchange.arguments)

    async def _progress(self, exchange: Exchange) -> None:
        token = exchange.meta.get("progressToken")
        if token is None:
            return
        for number in (1, 2, 3):
            params: JSONObject = {
                "progressToken": token,
                "progress": number / 2,
                "total": 1.5,
                "message": f"step {number}",
                "_meta": content.TRACE,
                **content.UNKNOWN,
            }
            await exchange.notify("notifications/progress", params)

    async def _whoami(self, exchange: Exchange) -> JSONObject:
        """Tell the caller's credential, on the way and at the end."""
        token = exchange.meta.get("progressToken")
        if token is not None:
            told: JSONObject = {"progressToken": token, "progress": 1, "message": exchange.who}
            await exchange.notify("notifications/progress", told)
        found: JSONObject = {"who": exchange.who, "q": exchange.arguments.get("q")}
        return {"content": [], "structuredContent": found}

    async def _log(self, exchange: Exchange) -> None:
        if exchange.is_modern and "io.modelcontextprotocol/logLevel" not in exchange.meta:
            return
        lines: tuple[JSONValue, ...] = ({"n": None, "deep": [1]}, "a line")
        for data in lines:
            await exchange.notify("notifications/message", log_line("warning", data))

    async def _wait(self) -> None:
        self.waiting += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def _read(self, exchange: Exchange) -> JSONObject:
        uri = str(exchange.params.get("uri"))
        if not uri.startswith(("note://", "ui://")):
            error: JSONObject = {"code": -32602, "message": "Not found", "data": {"uri": uri}}
            raise ProtocolError(error)
        return content.contents(uri, exchange.who)

    async def _prompt(self, exchange: Exchange) -> JSONObject:
        return content.prompt_result(exchange.arguments)

    async def _complete(self, exchange: Exchange) -> JSONObject:
        told: JSONObject = {"ref": exchange.params.get("ref"), "got": exchange.params["argument"]}
        values: list[JSONValue] = ["alice", "albert"]
        found: JSONObject = {"values": values, "total": 7, "hasMore": True, **content.UNKNOWN}
        return {"completion": found, "x-told": told, "_meta": content.TRACE}

    async def _set_level(self, exchange: Exchange) -> JSONObject:
        self.level = str(exchange.params.get("level"))
        return {}

    async def _subscribe(self, exchange: Exchange) -> JSONObject:
        self.subscribed.add(str(exchange.params.get("uri")))
        return {}

    async def _unsubscribe(self, exchange: Exchange) -> JSONObject:
        self.subscribed.discard(str(exchange.params.get("uri")))
        return {}

    async def _empty(self, exchange: Exchange) -> JSONObject:
        return {}


async def page(exchange: Exchange, key: str, entries: list[JSONValue]) -> JSONObject:
    """Return one page; the cursor is opaque to everybody else."""
    start = int(str(exchange.params.get("cursor", "p0"))[1:])
    end = start + PAGE_SIZE
    found: JSONObject = {key: entries[start:end], "_meta": content.TRACE, **content.UNKNOWN}
    return {**found, "nextCursor": f"p{end}"} if end < len(entries) else found


def told(answers: JSONObject) -> JSONObject:
    """Return the answers as they came, so that the asker's view is seen."""
    text: JSONObject = {"type": "text", "text": "asked"}
    return {"content": [text], "structuredContent": {"answers": answers}}


def log_line(level: str, data: JSONValue) -> JSONObject:
    return {
        "level": level,
        "logger": "relay",
        "data": data,
        "_meta": content.TRACE,
        **content.UNKNOWN,
    }
