"""The measured scenarios; a call counts only when its own nonce comes back."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from dataclasses import dataclass
from typing import Any

from mcp import Client

from bench import hub as hubs
from bench import processes
from bench.hub import Hub
from bench.wire import Wire


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: what was measured, the bar, and whether it holds."""

    name: str
    value: str
    bar: str
    holds: bool | None = None


async def echo(wire: Wire, slug: str, nonce: str) -> float:
    """Call echo once, return the seconds it took."""
    started = time.perf_counter()
    answer = await hubs.call(wire, slug, "echo", {"text": nonce})
    took = time.perf_counter() - started
    if nonce.encode() not in answer:
        raise SystemExit("An echo came back without its nonce.")
    return took


async def sequential(hub: Hub, upstream: str, era: str, *, rounds: int, calls: int) -> list[Row]:
    """Interleave rounds of direct SDK calls and REST calls; compare the medians."""
    wire, direct, through = hub.wire(), list[float](), list[float]()
    mode = "legacy" if era == "legacy" else "2026-07-28"
    async with Client(f"{upstream}/{era}/main", mode=mode) as client:
        for number in range(rounds):
            for index in range(calls):
                nonce = f"d-{number}-{index}"
                started = time.perf_counter()
                result: Any = await client.call_tool("echo", {"text": nonce})
                direct.append(time.perf_counter() - started)
                if result.content[0].text != nonce:
                    raise SystemExit("A direct echo came back without its nonce.")
            for index in range(calls):
                through.append(await echo(wire, era, f"h-{number}-{index}"))
    await wire.close()
    base, ours = statistics.median(direct) * 1000, statistics.median(through) * 1000
    text = f"{ours:.2f} ms against {base:.2f} ms direct, ratio {ours / base:.2f}"
    added = ours - base
    return [
        Row(
            f"sequential call, {era}: added median",
            f"{added:+.2f} ms ({text})",
            "≤ 6 ms",
            added <= 6,
        )
    ]


async def cpu(hub: Hub, upstream_pid: int, *, concurrency: int, calls: int) -> list[Row]:
    """CPU seconds of all processes of the hub per 1,000 calls."""
    wires = [hub.wire() for _ in range(concurrency)]
    for number, wire in enumerate(wires):
        await echo(wire, "modern", f"warm-{number}")
    left = iter(range(calls))

    async def worker(wire: Wire) -> None:
        for index in left:
            await echo(wire, "modern", f"c-{index}")

    before, other, started = (
        processes.cpu_seconds(hub.pid),
        processes.cpu_seconds(upstream_pid),
        time.perf_counter(),
    )
    await asyncio.gather(*(worker(wire) for wire in wires))
    wall = time.perf_counter() - started
    await asyncio.sleep(1.0)
    used = (processes.cpu_seconds(hub.pid) - before) / calls * 1000
    theirs = (processes.cpu_seconds(upstream_pid) - other) / calls * 1000
    for wire in wires:
        await wire.close()
    name = f"CPU per 1,000 calls, concurrency {concurrency}"
    value = f"{used:.2f} s ({calls / wall:.0f} calls/s; upstream {theirs:.2f} s)"
    return [
        Row(
            name,
            value,
            "≤ 6 s" if concurrency == 16 else "-",
            used <= 6 if concurrency == 16 else None,
        )
    ]


async def waiting(hub: Hub, *, count: int) -> list[Row]:
    """Many concurrent calls of a one-second tool on one connection."""
    wires = [hub.wire() for _ in range(count)]
    await asyncio.gather(*(wire.ask("GET", "/livez") for wire in wires))
    started = time.perf_counter()
    answers = await asyncio.gather(
        *(hubs.call(wire, "modern", "sleep", {"ms": 1000}) for wire in wires)
    )
    wall = time.perf_counter() - started
    for wire in wires:
        await wire.close()
    if not all(b"slept 1000" in answer for answer in answers):
        raise SystemExit("A waiting call came back with another answer.")
    return [Row(f"{count} concurrent calls of a 1 s tool", f"{wall:.2f} s", "≤ 2.5 s", wall <= 2.5)]


async def big(hub: Hub, *, kilobytes: int = 1024) -> list[Row]:
    """A large result passes whole."""
    wire = hub.wire()
    started = time.perf_counter()
    answer = json.loads(await hubs.call(wire, "modern", "big", {"kb": kilobytes}))
    took = (time.perf_counter() - started) * 1000
    await wire.close()
    is_whole = answer["content"][0]["text"] == "0123456789abcdef" * 64 * kilobytes
    return [
        Row(
            "1 MB result",
            f"{'intact' if is_whole else 'DAMAGED'}, {took:.0f} ms",
            "intact",
            is_whole,
        )
    ]


async def many_servers(hub: Hub, upstream: str, *, count: int) -> list[Row]:
    """Add servers, then connect all of them at once."""
    wires = [hub.wire() for _ in range(16)]
    names = [f"m{number}" for number in range(count)]
    for name in names:
        await hubs.add_server(wires[0], f"{upstream}/modern/{name}", name)
    started = time.perf_counter()
    await spread(wires, names)
    wall = time.perf_counter() - started
    return [Row(f"{count} servers connect", f"{wall:.2f} s", "≤ 6 s", wall <= 6)]


async def idle_sessions(hub: Hub, upstream: str, *, count: int) -> list[Row]:
    """Resident memory of the worker for idle handshake sessions, each with its GET stream."""
    pids = processes.find(hub.pid, "celery", "worker")
    wires = [hub.wire() for _ in range(16)]
    names = [f"l{number}" for number in range(count)]
    for name in names:
        await hubs.add_server(wires[0], f"{upstream}/legacy/{name}", name)
    await spread(wires, names[:20])
    before = sum(processes.resident_kib(pid) for pid in pids)
    await spread(wires, names[20:])
    await asyncio.sleep(2.0)
    each = (sum(processes.resident_kib(pid) for pid in pids) - before) / (count - 20)
    return [Row(f"{count} idle legacy sessions", f"{each:.0f} KiB each", "≤ 100 KiB", each <= 100)]


async def spread(wires: list[Wire], names: list[str]) -> None:
    """Connect all of `names` over a few connections."""
    left = iter(names)

    async def worker(wire: Wire) -> None:
        for name in left:
            await hubs.connect(wire, name)

    await asyncio.gather(*(worker(wire) for wire in wires))
