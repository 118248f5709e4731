"""Capacity: thousands of idle sessions, a thousand waiting calls, and what they cost."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence

from bench import hub as hubs
from bench.scenarios import spread
from bench.wire import Wire
from chaos import usage
from chaos.stack import WEBS, WORKERS, Stack
from chaos.usage import Usage
from chaos.verdict import Row

SETTINGS = {"MCPHUB_AUTHORITY_OPENINGS": "1000"}
"""All sessions are of one host here, which is no polite number of them."""
CLIENTS = 16
WARM = 100
IDLE_SECONDS = 30.0
CALL_SECONDS = 20.0
RAMP_SECONDS = 5.0
CALLED = 100
"""Servers that the calls are spread over."""
LARGEST_SESSION_KIB = 100
SLACK_SECONDS = 5.0

Usages = dict[str, Usage]


def capacity(stack: Stack, sessions: int, calls: int) -> list[Row]:
    """Measure both on a running stack."""
    return asyncio.run(_measure(stack, sessions, calls))


async def _measure(stack: Stack, sessions: int, calls: int) -> list[Row]:
    async with hubs.running_upstream() as (upstream, _):
        names = [f"idle{number}" for number in range(sessions)]
        clients = [_client(stack, number) for number in range(CLIENTS)]
        left = iter(names)

        async def add(client: Wire) -> None:
            for name in left:
                await hubs.add_server(client, f"{upstream}/legacy/{name}", name)

        await asyncio.gather(*map(add, clients))
        idle = await _idle(stack, clients, names)
        for client in clients:
            await client.close()
        return [idle, await _waiting(stack, names, calls)]


async def _idle(stack: Stack, clients: list[Wire], names: Sequence[str]) -> Row:
    """Sessions of the handshake era, each with a stream that stays open."""
    started = time.monotonic()
    await spread(clients, list(names[:WARM]))
    before = _usages(stack)
    await spread(clients, list(names[WARM:]))
    took = time.monotonic() - started
    settled = _usages(stack)
    await asyncio.sleep(IDLE_SECONDS)
    after = _usages(stack)
    counts = Counter(stack.holder(name) for name in names[:: len(names) // 200 or 1])
    grown = sum(after[n].resident_kib - before[n].resident_kib for n in WORKERS)
    each = grown / (len(names) - WARM)
    busy = sum(after[n].cpu_seconds - settled[n].cpu_seconds for n in WORKERS) / IDLE_SECONDS
    shares = ", ".join(f"{name} {count / counts.total():.0%}" for name, count in counts.items())
    return Row(
        id="idle sessions",
        rounds=len(names),
        invariant=f"open over 2 workers, ≤ {LARGEST_SESSION_KIB} KiB each",
        holds=each <= LARGEST_SESSION_KIB,
        measured=f"{each:.0f} KiB each; opened in {took:.0f} s; {shares}; both workers together "
        f"{busy:.1%} of a core while idle; {_memory(after)}; "
        f"descriptors {', '.join(f'{n} {after[n].descriptors}' for n in WORKERS)}",
        seconds=time.monotonic() - started,
    )


async def _waiting(stack: Stack, names: Sequence[str], count: int) -> Row:
    """Calls of a slow tool, each waited for by a request that stays open."""
    clients = [_client(stack, number) for number in range(count)]
    await asyncio.gather(*(client.ask("GET", "/livez") for client in clients))
    before, started = _usages(stack), time.monotonic()
    asked = [
        asyncio.create_task(_call(client, names[number % CALLED], RAMP_SECONDS * number / count))
        for number, client in enumerate(clients)
    ]
    await asyncio.sleep(RAMP_SECONDS + CALL_SECONDS / 2)
    during = _usages(stack)
    ends = Counter(await asyncio.gather(*asked))
    took = time.monotonic() - started
    after = _usages(stack)
    for client in clients:
        await client.close()
    busy = sum(after[name].cpu_seconds - before[name].cpu_seconds for name in before)
    return Row(
        id="waiting calls",
        rounds=count,
        invariant=f"of {CALL_SECONDS:.0f} s, begun within {RAMP_SECONDS:.0f} s: all answered "
        f"≤ {SLACK_SECONDS:.0f} s later",
        holds=ends["right"] == count and took <= RAMP_SECONDS + CALL_SECONDS + SLACK_SECONDS,
        measured=f"{dict(ends)} within {took:.1f} s; {busy:.1f} CPU s in web and workers; "
        f"before: {_memory(before)}; while they wait: {_memory(during)}",
        seconds=took,
    )


async def _call(client: Wire, name: str, after: float) -> str:
    """Call the slow tool; what came of it."""
    await asyncio.sleep(after)
    milliseconds = round(CALL_SECONDS * 1000)
    path = f"{hubs.API}/servers/{name}/tools/sleep/call"
    status, answer = await client.ask("POST", path, {"arguments": {"ms": milliseconds}})
    if status == 200 and f"slept {milliseconds}".encode() in answer:
        return "right"
    return f"{status} {_problem(answer)}"


def _problem(answer: bytes) -> str:
    """Name what a refusal is about, so that a row tells one cause from another."""
    try:
        document = json.loads(answer)
        return f"{document['code']}: {document['detail']}"
    except (ValueError, KeyError, TypeError):
        return "without a problem document"


def _client(stack: Stack, number: int) -> Wire:
    return Wire(stack.url(WEBS[number % len(WEBS)]), stack.key)


def _usages(stack: Stack) -> Usages:
    return {name: usage.of(stack, name) for name in (*WEBS, *WORKERS)}


def _memory(usages: Usages) -> str:
    return ", ".join(f"{name} {each.resident_kib >> 10} MiB" for name, each in usages.items())
