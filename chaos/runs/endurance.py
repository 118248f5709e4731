"""Many cycles and many lies: R42 (connect and close) and R43 (mutated answers)."""

from __future__ import annotations

import json
import random
import secrets
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from chaos import usage
from chaos.load import ask
from chaos.runs.upstream import Site, site
from chaos.stack import WORKERS, Stack
from chaos.verdict import run
from tests.fakes.raw_server import RawServer, Request, Wire, head, result, text_result
from tests.waiting import eventually

AT_ONCE, PORTION = 32, 200
WARM_CYCLES = 40
STRANGE = ("cancel scope", "Traceback", "Task exception was never retrieved", "Task was destroyed")


def descriptors(stack: Stack) -> dict[str, int]:
    """Open file descriptors of every worker."""
    return {name: usage.of(stack, name).descriptors for name in WORKERS}


def strange(stack: Stack) -> Counter[str]:
    """Count what should never be in a worker's log."""
    return Counter(
        {mark: sum(stack.programs[n].text().count(mark) for n in WORKERS) for mark in STRANGE}
    )


@dataclass
class Sessions(RawServer):
    """Counts the sessions that are open; fails some requests by the dice."""

    open_ones: set[str] = field(default_factory=set)
    dice: random.Random = field(default_factory=lambda: random.Random(42))
    is_fair: bool = False

    async def on_initialize(self, request: Request, wire: Wire) -> None:
        type(self).session_id = secrets.token_hex(8)
        self.open_ones.add(str(self.session_id))
        await super().on_initialize(request, wire)

    async def on_list_tools(self, request: Request, wire: Wire) -> None:
        if not self.is_fair and self.dice.random() < 0.2:
            wire.reset()
            return
        await super().on_list_tools(request, wire)

    async def on_delete(self, request: Request, wire: Wire) -> None:
        self.open_ones.discard(request.headers.get("mcp-session-id", ""))
        await super().on_delete(request, wire)


@run("R42", "connect and close cycles with faults: nothing left open here or there", rounds=1000)
def cycles(stack: Stack, rounds: int) -> str:
    server = Sessions()
    before_strange = strange(stack)
    with site(stack, server, is_connected=False) as here:
        cycle(here, WARM_CYCLES)  # threads open their connections to the stores
        before = descriptors(stack)
        states = cycle(here, rounds)
        eventually(lambda: here.state() == "disconnected", 10.0, "disconnected")
        eventually(
            lambda: max(descriptors(stack)[n] - before[n] for n in WORKERS) <= 3,
            15.0,
            "descriptors are back",
        )
        eventually(lambda: not server.open_ones, 10.0, "every upstream session is ended")
    new = strange(stack) - before_strange
    assert not new, dict(new)
    return f"{dict(states)}, no session left upstream, descriptors level"


def cycle(here: Site, rounds: int) -> Counter[str]:
    """Connect and disconnect; count what connecting came to."""
    states: Counter[str] = Counter()
    for _ in range(rounds):
        states[str(here.api.connect(here.slug)["connectionState"])] += 1
        here.api.http.post(f"/api/v1/servers/{here.slug}/disconnect", json={})
    return states


@dataclass
class Mutant(RawServer):
    """Answers calls with mutated bytes; `plain` calls are answered well."""

    dice: random.Random = field(default_factory=lambda: random.Random(43))

    async def on_call(self, request: Request, wire: Wire) -> None:
        answer = result(request.id, text_result("x" * self.dice.randint(0, 300)))
        body = json.dumps(answer).encode()
        raw = head(200, "application/json", length=len(body)) + body
        if request.arguments.get("plain"):
            await wire.send(raw)
            return
        await wire.send(self.mutated(raw))

    def mutated(self, raw: bytes) -> bytes:
        changed = bytearray(raw)
        for _ in range(self.dice.randint(1, 6)):
            at = self.dice.randrange(len(changed) or 1)
            match self.dice.randrange(4):
                case 0:
                    changed[at : at + 1] = bytes([self.dice.randrange(256)])
                case 1:
                    del changed[at : at + self.dice.randint(1, 40)]
                case 2:
                    changed[at:at] = self.dice.randbytes(self.dice.randint(1, 20))
                case _:
                    changed[at:at] = changed[: self.dice.randint(1, len(changed) or 1)]
            if not changed:
                return b""
        return bytes(changed)


@run(
    "R43",
    "mutated answers: no worker ends, no error outside the table, session kept",
    rounds=20_000,
)
def fuzz(stack: Stack, rounds: int) -> str:
    pids = {name: stack.programs[name].pid for name in WORKERS}
    before = strange(stack)
    codes: Counter[str] = Counter()
    server = Mutant()
    with site(stack, server) as here, ThreadPoolExecutor(AT_ONCE) as threads:
        for start in range(0, rounds, PORTION):
            size = min(PORTION, rounds - start)
            for answer in threads.map(here.call, ["echo"] * size, [1000] * size):
                codes[answer.code or str(answer.status)] += 1
            plain = ask(lambda: here.api.call(here.slug, "echo", {"plain": True}))
            assert plain.status == 200, plain
            server.requests.clear()
        assert here.state() == "connected"
        assert server.counts["POST initialize"] <= 1 + rounds // PORTION, server.counts
    assert {name: stack.programs[name].pid for name in WORKERS} == pids, "a worker ended"
    assert codes["internal_error"] == 0, dict(codes)
    new = strange(stack) - before
    assert not new, dict(new)
    return f"{rounds} answers: {dict(codes)}"
