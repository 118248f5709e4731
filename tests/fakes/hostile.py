"""Hostile servers: one whose tools each misbehave in their own way, and some that list badly."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from mcphub.core.types import JSONObject, JSONValue
from tests.fakes.raw_server import (
    ECHO,
    RawServer,
    Request,
    Wire,
    error,
    event,
    head,
    note,
    result,
    text_result,
)

MIB = 1 << 20
BODY_MIB = 80
NOTIFICATIONS = 20_000
MANY_TOOLS = 5000
DRIP_SECONDS = 0.05


def tool(name: str, schema: JSONObject | None = None) -> JSONObject:
    return {"name": name, "inputSchema": schema or {"type": "object"}}


@dataclass
class Hostile(RawServer):
    """A tool for each entry of BEHAVIOURS, and `good`; other origins are at `elsewhere`."""

    elsewhere: str = ""

    async def on_list_tools(self, request: Request, wire: Wire) -> None:
        tools: list[JSONValue] = [tool(name) for name in ("good", *BEHAVIOURS)]
        await wire.answer(result(request.id, {"tools": tools}))

    async def on_call(self, request: Request, wire: Wire) -> None:
        behave = BEHAVIOURS.get(str(request.params["name"]))
        if behave is None:
            await super().on_call(request, wire)
        else:
            await behave(self, request, wire)

    async def answer_to(self, peer_id: str) -> JSONObject:
        """Wait for the client's answer to a request of ours."""
        found: list[JSONObject] = []

        def is_here() -> bool:
            found.extend(r.message for r in self.requests if r.id == peer_id and not r.rpc_method)
            return bool(found)

        async with asyncio.timeout(5), self.arrived:
            await self.arrived.wait_for(is_here)
        return found[0]


Behaviour: TypeAlias = "Callable[[Hostile, Request, Wire], Awaitable[None]]"


def sends(raw: bytes) -> Behaviour:
    async def behave(server: Hostile, request: Request, wire: Wire) -> None:
        await wire.send(raw)

    return behave


def answers(body: JSONValue | bytes, content_type: str = "application/json") -> Behaviour:
    async def behave(server: Hostile, request: Request, wire: Wire) -> None:
        await wire.answer(body, content_type=content_type)

    return behave


def drips(start: bytes, drop: bytes) -> Behaviour:
    async def behave(server: Hostile, request: Request, wire: Wire) -> None:
        await wire.send(start)
        while not await wire.until_gone(DRIP_SECONDS):
            await wire.send(drop)

    return behave


def asks(method: str) -> Behaviour:
    """Make a request of the client during the call, and answer with the code of its refusal."""

    async def behave(server: Hostile, request: Request, wire: Wire) -> None:
        peer_id = f"{method}-{request.id}"
        await wire.open_stream()
        await wire.event({"jsonrpc": "2.0", "id": peer_id, "method": method, "params": {}})
        refusal = await server.answer_to(peer_id)
        await wire.event(result(request.id, text_result(json.dumps(refusal.get("error")))))

    return behave


async def hangs(server: Hostile, request: Request, wire: Wire) -> None:
    await wire.until_gone()


async def resets(server: Hostile, request: Request, wire: Wire) -> None:
    wire.reset()


async def answers_other_id(server: Hostile, request: Request, wire: Wire) -> None:
    await wire.answer(result(int(str(request.id)) + 1, text_result("wrong")))


async def sends_80_mb(server: Hostile, request: Request, wire: Wire) -> None:
    await wire.send(head(200, "application/json"))
    await wire.send(b'{"jsonrpc":"2.0","id":%d,"result":{"a":"' % int(str(request.id)))
    await pour(wire)


async def streams_80_mb(server: Hostile, request: Request, wire: Wire) -> None:
    await wire.open_stream()
    await wire.send(b"data: ")
    await pour(wire)


async def pour(wire: Wire) -> None:
    for _ in range(BODY_MIB):
        await wire.send(b"x" * MIB)


async def sends_gzip_bomb(server: Hostile, request: Request, wire: Wire) -> None:
    bomb = gzip.compress(bytes(64 * MIB))
    await wire.answer(bomb, headers=[("Content-Encoding", "gzip")])


async def floods(server: Hostile, request: Request, wire: Wire) -> None:
    await wire.open_stream()
    one = event(note("notifications/message", {"level": "info", "data": "x" * 50}))
    for _ in range(NOTIFICATIONS // 1000):
        await wire.send(one * 1000)
    await wire.event(result(request.id, text_result("flooded")))


async def redirects(server: Hostile, request: Request, wire: Wire) -> None:
    await wire.answer(status=307, headers=[("Location", server.elsewhere)])


BEHAVIOURS: dict[str, Behaviour] = {
    "hang": hangs,
    "drip_headers": drips(b"HTTP/1.1 200 X\r\n", b"X: 1\r\n"),
    "drip_body": drips(head(200, "application/json", length=50_000), b" "),
    "drip_comments": drips(head(200, "text/event-stream"), b": here\n\n"),
    "reset": resets,
    "garbage": sends(b"\0\1garbage\r\n\r\n"),
    "other_id": answers_other_id,
    "invalid_json": answers(b"{nope"),
    "web_page": answers(b"<!doctype html><title>Shop</title>", "text/html"),
    "big_body": sends_80_mb,
    "big_event": streams_80_mb,
    "gzip_bomb": sends_gzip_bomb,
    "flood": floods,
    "redirect": redirects,
    "elicit": asks("elicitation/create"),
    "sample": asks("sampling/createMessage"),
}


class ManyTools(RawServer):
    tools: ClassVar[list[JSONValue]] = [tool(f"tool_{n}") for n in range(MANY_TOOLS)]


class EndlessCursor(RawServer):
    """A tool a page, and always one page more."""

    async def on_list_tools(self, request: Request, wire: Wire) -> None:
        page = int(str(request.params.get("cursor", 0)))
        listing: JSONObject = {"tools": [tool(f"tool_{page}")], "nextCursor": str(page + 1)}
        await wire.answer(result(request.id, listing))


class OneBrokenTool(RawServer):
    tools: ClassVar[list[JSONValue]] = [ECHO, {"name": "broken"}, 7, tool("last")]


class Shop(RawServer):
    """A web site: pages for who asks, nothing for who posts."""

    post_status: ClassVar[int] = 405

    async def serve(self, request: Request, wire: Wire) -> None:
        status = 200 if request.method == "GET" else self.post_status
        page = b"<!doctype html><title>Shop</title>"
        await wire.answer(page, status=status, content_type="text/html; charset=utf-8")


class PoliteShop(Shop):
    post_status: ClassVar[int] = 200


class Refusing(RawServer):
    """Knows no method at all."""

    async def on_message(self, request: Request, wire: Wire) -> None:
        await wire.answer(error(request.id, -32601))
