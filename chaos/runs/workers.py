"""Workers die, sleep, are asked to go: R01 to R04, R09, R11, R12."""

from __future__ import annotations

import secrets
import signal
import time
import uuid
from collections import Counter
from functools import partial

from chaos.load import Load, loaded
from chaos.processes import Program
from chaos.proxy import Mode
from chaos.stack import WORKERS, Stack
from chaos.verdict import run
from connectors.queue import EntryKind, LaneEntry
from tests.fakes.mcp_servers import Kind
from tests.fakes.raw_server import RawServer, Request, Wire, serving_in_thread
from tests.live.api import Api
from tests.waiting import eventually

CALLS = 20
LATE = 5
BATCH = 200
KILL_SECONDS = 20.0
LONGEST_LOAD = 600.0
SENT_ENDS = {"outcome_unknown", "200"}


def is_replaced(program: Program, before: int) -> bool:
    return program.pid != before


def held(load: Load) -> str:
    """The worker that holds the session, once there is one."""
    return eventually(lambda: load.stack.holder(load.slug), 30.0, "somebody holds the session")


def replaced(stack: Stack, name: str, before: int) -> None:
    """Wait for the supervisor to have started a worker anew, and for it to be at work."""
    eventually(lambda: stack.programs[name].pid != before, 10.0, f"{name} is started again")
    eventually(stack.is_whole, 60.0, "the stack is whole")


@run(
    "R01",
    "kill -9 of a worker with 20 sent calls: ≤ 1 execution each, ended ≤ 45 s, sent ones unknown",
    rounds=50,
    is_quick=True,
)
def kill_worker(stack: Stack, rounds: int) -> str:
    slowest, total = 0.0, Counter[str]()
    for number in range(rounds):
        with loaded(stack, (Kind.LEGACY, Kind.MODERN)[number % 2]) as load:
            holder = held(load)
            program = stack.programs[holder]
            before = program.pid
            sent = load.send(CALLS, ms=3000)
            load.until_running(sent)
            program.signal(signal.SIGSTOP)
            late = load.send(LATE, ms=5)
            eventually(lambda: count(load) == CALLS + LATE, 15.0, "all calls are accepted")
            started = time.monotonic()
            program.signal(signal.SIGKILL)
            ends = load.ends(sent)
            assert set(ends) == {"outcome_unknown"}, dict(ends)
            assert set(load.ends(late)) == {"200"}, dict(load.ends(late))
            slowest = max(slowest, time.monotonic() - started)
            total += load.sound()
            replaced(stack, holder, before)
    return f"{dict(total)}, all ended ≤ {slowest:.1f} s"


def count(load: Load, status: str = "%") -> int:
    """How many calls of the server there are in the ledger, with a status."""
    statement = "SELECT count(*) FROM connectors_toolcall WHERE server = %s AND status LIKE %s"
    found: int = load.stack.sql(statement, load.slug, status)[0][0]
    return found


@run(
    "R02",
    "kill -9 at five points of a call, 20 calls each: the end is the one of that point",
    rounds=5,
    needs_postgresql=True,
)
def kill_at_points(stack: Stack, rounds: int) -> str:
    points = {
        "before claim": (kill_before_claim, {"200"}),
        "after claim": (kill_after_claim, {"200"}),
        "after sent is committed": (kill_after_commit, SENT_ENDS),
        "after sending": (kill_after_sent, {"outcome_unknown"}),
        "after answer": (kill_after_answer, {"outcome_unknown"}),
    }
    found: dict[str, Counter[str]] = {name: Counter() for name in points}
    for _ in range(rounds):
        for name, (body, expected) in points.items():
            with loaded(stack, Kind.MODERN) as load:
                holder = held(load)
                before = stack.programs[holder].pid
                keys = body(load, holder)
                ends = load.ends(keys)
                assert set(ends) <= expected, f"{name}: {dict(ends)}"
                found[name] += ends
                load.sound()
                stack.proxy.become(Mode.PASS)
                replaced(stack, holder, before)
    return "; ".join(f"{name} {dict(ends)}" for name, ends in found.items() if ends)


def kill_before_claim(load: Load, holder: str) -> list[str]:
    load.stack.programs[holder].signal(signal.SIGSTOP)
    keys = load.send(CALLS, ms=5)
    eventually(lambda: count(load) == CALLS, 10.0, "all calls are accepted")
    load.stack.programs[holder].signal(signal.SIGKILL)
    return keys


def kill_after_claim(load: Load, holder: str) -> list[str]:
    """Calls that wait for their session to open are claimed, and nothing has left."""
    stack = load.stack
    stack.sql("UPDATE connectors_connection SET state = 'connecting' WHERE slug = %s", load.slug)
    keys = load.send(CALLS, ms=5)
    stack.programs[holder].signal(signal.SIGKILL)
    return keys


def kill_after_commit(load: Load, holder: str) -> list[str]:
    """`sent` is stored, and the worker dies before it hears so: nothing has left."""
    stack = load.stack
    load.ends(load.send(LATE, ms=1))  # the connection that claims stands and is in use
    stack.proxy.become(Mode.MUTE, f"{holder}>database")
    keys = load.send(CALLS, ms=5)
    eventually(lambda: count(load, "sent"), 10.0, "calls are marked as sent")
    stack.programs[holder].signal(signal.SIGKILL)
    stack.proxy.become(Mode.PASS)
    return keys


def kill_after_sent(load: Load, holder: str) -> list[str]:
    keys = load.send(CALLS, ms=3000)
    load.until_running(keys)
    load.stack.programs[holder].signal(signal.SIGKILL)
    return keys


def kill_after_answer(load: Load, holder: str) -> list[str]:
    """The database is out of the worker's reach while the answers come in."""
    stack = load.stack
    keys = load.send(CALLS, ms=1500)
    load.until_running(keys)
    stack.proxy.become(Mode.BLACK_HOLE, f"{holder}>database")
    pause = time.monotonic() + 2.5
    eventually(lambda: time.monotonic() > pause, 5.0)
    stack.programs[holder].signal(signal.SIGKILL)
    stack.proxy.become(Mode.RESET, f"{holder}>database")
    stack.proxy.become(Mode.PASS)
    return keys


@run("R03", "SIGTERM with 20 calls in flight: all finish or are unknown, gone ≤ 30 s", rounds=2)
def ask_worker_to_end(stack: Stack, rounds: int) -> str:
    slowest, total = 0.0, Counter[str]()
    for number in range(rounds):
        with loaded(stack, (Kind.LEGACY, Kind.MODERN)[number % 2]) as load:
            holder = held(load)
            program = stack.programs[holder]
            keys = load.send(CALLS, ms=5000)
            load.until_running(keys)
            before, started = program.pid, time.monotonic()
            program.signal(signal.SIGTERM)
            late = load.send(LATE, ms=5)
            eventually(partial(is_replaced, program, before), 31.0, "the worker is gone ≤ 30 s")
            slowest = max(slowest, time.monotonic() - started)
            total += load.ends(keys)
            assert set(load.ends(keys)) <= SENT_ENDS, dict(load.ends(keys))
            assert set(load.ends(late)) == {"200"}, dict(load.ends(late))
            load.sound()
            replaced(stack, holder, before)
    return f"{dict(total)}, gone after ≤ {slowest:.1f} s"


@run("R04", "ten rings for one call, before and while it runs: 1 execution", is_quick=True)
def ring_again(stack: Stack, _rounds: int) -> str:
    with loaded(stack) as load:
        worker = stack.sql(
            "SELECT held_by, id FROM connectors_connection WHERE slug = %s", load.slug
        )[0]
        keys = load.send(LATE, ms=1500)
        load.until_running(keys)
        rows = stack.sql("SELECT id FROM connectors_toolcall WHERE server = %s", load.slug)
        redis = stack.redis()
        for _ in range(10):
            for (call_id,) in rows:
                entry = LaneEntry(
                    kind=EntryKind.CALL,
                    id=uuid.UUID(str(call_id)),
                    connection_id=uuid.UUID(str(worker[1])),
                )
                redis.xadd(f"mcphub:lane:{worker[0]}", {"e": entry.encode()})
        assert set(load.ends(keys)) == {"200"}, dict(load.ends(keys))
        for (call_id,) in rows:
            entry = LaneEntry(
                kind=EntryKind.CALL,
                id=uuid.UUID(str(call_id)),
                connection_id=uuid.UUID(str(worker[1])),
            )
            redis.xadd(f"mcphub:lane:{worker[0]}", {"e": entry.encode()})
        load.works_again()
        found = load.sound()
        assert all(load.executions[key] == 1 for key in keys)
    return f"{len(rows)} calls, {11 * len(rows)} more rings, {dict(found)}"


@run("R09", "a worker that wakes up after its time changes no outcome", rounds=1)
def wake_late(stack: Stack, _rounds: int) -> str:
    with loaded(stack) as load:
        holder = held(load)
        keys = load.send(LATE, ms=1500)
        load.until_running(keys)
        program = stack.programs[holder]
        program.signal(signal.SIGSTOP)
        try:
            assert set(load.ends(keys)) == {"outcome_unknown"}, dict(load.ends(keys))
            eventually(lambda: stack.holder(load.slug) not in {"", holder}, 40.0, "taken over")
            took = load.works_again()
        finally:
            program.signal(signal.SIGCONT)
        eventually(lambda: program.text().count("end refused") >= LATE, 20.0, "late ends refused")
        found = load.sound()
        assert found["outcome_unknown"] == LATE, dict(found)
    return f"{LATE} late ends refused; other worker after {took:.1f} s; {dict(found)}"


class Poison(RawServer):
    """Whoever opens a session with it dies: a stand-in for an answer that crashes the process."""

    stack: Stack
    slug = ""
    deaths = 0

    async def on_list_tools(self, request: Request, wire: Wire) -> None:
        holder = self.stack.holder(self.slug)
        if self.deaths < 12 and holder:
            self.deaths += 1
            self.stack.programs[holder].signal(signal.SIGKILL)
        await wire.until_gone(1.0)


@run("R11", "a server that crashes who connects to it: ≤ 2 deaths, then its connection rests")
def poison(stack: Stack, _rounds: int) -> str:
    with loaded(stack) as load:
        server = Poison()
        server.stack, server.slug = stack, f"poison-{secrets.token_hex(3)}"
        with serving_in_thread(server):
            api: Api = load.apis[0]
            api.add_server(server.slug, server.url)
            api.http.post(f"/api/v1/servers/{server.slug}/connect", json={})

            def rests() -> bool:
                return bool(api.server(server.slug)["connectionState"] == "error")

            eventually(rests, 90.0, f"the poisonous connection rests ({server.deaths} deaths)")
            code = api.server(server.slug)["lastError"]["code"]
            stack.heal()
            load.works_again()
            api.http.delete(f"/api/v1/servers/{server.slug}")
        assert server.deaths <= 2, f"{server.deaths} deaths"
    return f"{server.deaths} deaths, then error {code}; a neighbour works"


@run(
    "R12",
    "10,000 queued calls, a worker killed every 20 s: all accepted ones terminal, none twice",
    rounds=10_000,
)
def kill_under_load(stack: Stack, rounds: int) -> str:
    with loaded(stack, Kind.MODERN) as load:
        accepted, kills, next_kill = 0, 0, 0.0
        started = time.monotonic()
        while accepted < rounds:
            accepted += len(load.send_later(min(BATCH, rounds - accepted), ms=200))
            assert time.monotonic() - started < LONGEST_LOAD, f"{accepted} accepted"
            if time.monotonic() > next_kill:
                name = WORKERS[kills % 2]
                stack.programs[name].signal(signal.SIGKILL)
                kills, next_kill = kills + 1, time.monotonic() + KILL_SECONDS
        found = load.sound()
        assert found.total() >= accepted, f"{accepted} accepted, {dict(found)}"
        stack.heal()
        load.works_again()
        ran = sum(load.executions[key] for key in load.executions if key != "sleep")
    seconds = time.monotonic() - started
    return f"{accepted} accepted, {kills} kills in {seconds:.0f} s, {dict(found)}, {ran} executed"
