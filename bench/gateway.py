"""The gateway: calls of MCP clients through `/mcp/s/{server}` and `/mcp` against direct ones."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from contextlib import AsyncExitStack
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from bench import processes
from bench.hub import Hub
from bench.scenarios import Row
from bench.wire import Wire

MODES = {"modern": "2026-07-28", "legacy": "legacy"}
PREFIX = "io.modelcontextprotocol/"
HEADERS = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/call",
    "Mcp-Name": "echo",
}
MOST_ADDED = 6.0
IDS = itertools.count()


async def connected(exits: AsyncExitStack, url: str, key: str, era: str) -> Any:
    """Return the SDK's client of one era."""
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=60)
    await exits.enter_async_context(http)
    transport = streamable_http_client(url, http_client=http)
    mode: Any = MODES[era]
    return await exits.enter_async_context(Client(transport, mode=mode))


async def called(client: Any, tool: str) -> float:
    """Call echo once, return the seconds it took."""
    nonce = f"g-{next(IDS)}"
    started = time.perf_counter()
    result = await client.call_tool(tool, {"text": nonce})
    took = time.perf_counter() - started
    if result.content[0].text != nonce:
        raise SystemExit("An echo through the gateway came back without its nonce.")
    return took


async def sequential(hub: Hub, upstream: str, era: str, *, rounds: int, calls: int) -> list[Row]:
    """Interleave rounds of the same client directly, at one server and at the aggregate."""
    took: dict[str, list[float]] = {"direct": [], "/mcp/s": [], "/mcp": []}
    async with AsyncExitStack() as exits:
        ways = {
            "direct": (await connected(exits, f"{upstream}/{era}/main", "none", era), "echo"),
            "/mcp/s": (await connected(exits, f"{hub.url}/mcp/s/{era}", hub.key, era), "echo"),
            "/mcp": (await connected(exits, f"{hub.url}/mcp", hub.key, era), f"{era}__echo"),
        }
        for _ in range(rounds):
            for way, (client, tool) in ways.items():
                took[way] += [await called(client, tool) for _ in range(calls)]
    base = statistics.median(took.pop("direct")) * 1000
    return [
        added_row(way, era, statistics.median(seconds) * 1000, base)
        for way, seconds in took.items()
    ]


def added_row(way: str, era: str, ours: float, base: float) -> Row:
    added = ours - base
    text = f"{added:+.2f} ms ({ours:.2f} ms against {base:.2f} ms direct, ratio {ours / base:.2f})"
    name = f"gateway call, {way}, {era}: added median"
    return Row(name, text, f"≤ {MOST_ADDED:.0f} ms", added <= MOST_ADDED)


def raw_call(nonce: str) -> dict[str, Any]:
    """Return a call as a client of 2026-07-28 sends it."""
    meta = {
        f"{PREFIX}protocolVersion": MODES["modern"],
        f"{PREFIX}clientCapabilities": {},
        f"{PREFIX}clientInfo": {"name": "bench", "version": "1"},
    }
    params = {"name": "echo", "arguments": {"text": nonce}, "_meta": meta}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


async def concurrent(hub: Hub, upstream_pid: int, *, clients: int, calls: int) -> list[Row]:
    """Many clients at once, cheap ones; an error ends the benchmark."""
    wires = [hub.wire(HEADERS) for _ in range(clients)]
    left = iter(range(calls))

    async def worker(wire: Wire) -> None:
        for index in left:
            nonce = f"c-{index}"
            status, answer = await wire.ask("POST", "/mcp/s/modern", raw_call(nonce))
            if status != 200 or nonce.encode() not in answer:
                raise SystemExit(f"A concurrent call answered {status}: {answer[:300]!r}")

    before = processes.cpu_seconds(hub.pid), processes.cpu_seconds(upstream_pid)
    started = time.perf_counter()
    await asyncio.gather(*(worker(wire) for wire in wires))
    wall = time.perf_counter() - started
    await asyncio.sleep(1.0)
    used = (processes.cpu_seconds(hub.pid) - before[0]) / calls * 1000
    theirs = (processes.cpu_seconds(upstream_pid) - before[1]) / calls * 1000
    for wire in wires:
        await wire.close()
    name = f"gateway, CPU per 1,000 calls, concurrency {clients}"
    value = f"{used:.2f} s, no error ({calls / wall:.0f} calls/s; upstream {theirs:.2f} s)"
    return [Row(name, value, "no error", True)]
