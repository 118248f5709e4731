"""A raw ASGI MCP server that is never the bottleneck; /legacy/… and /modern/… choose the era.

Every path below the two is a server of its own, so that one process stands for a hundred.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Json = dict[str, Any]

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
INFO = {"name": "bench-upstream", "version": "1"}
JSON_TYPE = [(b"content-type", b"application/json")]
KILOBYTE = "0123456789abcdef" * 64
SESSIONS: set[str] = set()


def tool(name: str, **properties: str) -> Json:
    """Return one tool whose properties are all required."""
    return {
        "name": name,
        "description": f"{name} of the benchmark",
        "inputSchema": {
            "type": "object",
            "properties": {key: {"type": kind} for key, kind in properties.items()},
            "required": list(properties),
        },
    }


TOOLS = [tool("echo", text="string"), tool("sleep", ms="integer"), tool("big", kb="integer")]


async def answer(send: Send, status: int, body: bytes = b"", extra: Any = ()) -> None:
    """Send one whole response."""
    headers = [*JSON_TYPE, *extra, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def call(params: Json) -> Json:
    """Run one of the three tools."""
    arguments = params.get("arguments") or {}
    match params.get("name"):
        case "echo":
            text = str(arguments["text"])
        case "sleep":
            await asyncio.sleep(min(int(arguments["ms"]), 60_000) / 1000)
            text = f"slept {arguments['ms']}"
        case _:
            text = KILOBYTE * min(int(arguments["kb"]), 16_384)
    return {"content": [{"type": "text", "text": text}], "isError": False}


async def result_of(method: str, params: Json, *, is_modern: bool) -> Json | None:
    """Return the result of one request, None for an unknown method."""
    capabilities = {"capabilities": {"tools": {"listChanged": False}}}
    if method == "tools/call":
        result = await call(params)
    elif method == "tools/list":
        result = {"tools": TOOLS, "ttlMs": 60_000, "cacheScope": "private"}
    elif method == "ping":
        result = {}
    elif method == "initialize" and not is_modern:
        asked = params.get("protocolVersion")
        version = asked if asked in HANDSHAKE else HANDSHAKE[-1]
        return {"protocolVersion": version, "serverInfo": INFO, **capabilities}
    elif method == "server/discover" and is_modern:
        result = {
            "supportedVersions": [MODERN],
            "ttlMs": 0,
            "cacheScope": "private",
            **capabilities,
        }
    else:
        return None
    return {**result, "resultType": "complete"} if is_modern else result


async def idle_stream(receive: Receive, send: Send) -> None:
    """Keep the GET stream of a handshake session open until the client leaves."""
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b": open\n\n", "more_body": True})
    while (await receive())["type"] != "http.disconnect":
        pass


async def body_of(receive: Receive) -> bytes:
    """Read the whole request body."""
    body = b""
    while True:
        message = await receive()
        body += bytes(message.get("body", b""))
        if not message.get("more_body"):
            return body


async def post(scope: Json, body: bytes, send: Send) -> None:
    """Answer one JSON-RPC message."""
    is_modern = scope["path"].startswith("/modern")
    message = json.loads(body)
    request_id, method = message.get("id"), message.get("method")
    if request_id is None or method is None:
        await answer(send, 202)
        return
    result = await result_of(method, message.get("params") or {}, is_modern=is_modern)
    extra = []
    if method == "initialize" and result is not None:
        session = secrets.token_hex(16)
        SESSIONS.add(session)
        extra = [(b"mcp-session-id", session.encode())]
    reply: Json = {"jsonrpc": "2.0", "id": request_id}
    if result is None:
        reply["error"] = {"code": -32601, "message": "Method not found"}
        await answer(send, 404, json.dumps(reply).encode())
        return
    reply["result"] = result
    await answer(send, 200, json.dumps(reply).encode(), extra)


async def app(scope: Json, receive: Receive, send: Send) -> None:
    """ASGI entry point."""
    if scope["type"] == "lifespan":
        while True:
            event = await receive()
            await send({"type": event["type"] + ".complete"})
            if event["type"] == "lifespan.shutdown":
                return
    if scope["method"] == "GET" and scope["path"].startswith("/legacy"):
        await idle_stream(receive, send)
    elif scope["method"] == "DELETE":
        await answer(send, 200)
    elif scope["method"] != "POST":
        await answer(send, 405)
    else:
        await post(scope, await body_of(receive), send)
