"""Redis and PostgreSQL go away, hang, forget: R05 to R08."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable

from chaos.load import Answer, Load, loaded
from chaos.proxy import Mode
from chaos.runs.workers import held
from chaos.stack import Stack
from chaos.verdict import run
from tests.live.api import Api
from tests.waiting import eventually

IN_FLIGHT = 5
QUEUED = 50
REDIS_SECONDS = 1.0
DATABASE_SECONDS = 2.0
SLACK = 0.5
"""What the machine's own load may add to an answer."""


def refused(load: Load, longest: float) -> Answer:
    """Probe while something is away: answered in time, with when to come back."""
    worst = load.probe()
    assert worst.seconds <= longest + SLACK, f"answered after {worst.seconds:.1f} s"
    if worst.status != 200:
        assert (worst.status, worst.code) == (503, "unavailable"), worst
        assert int(worst.retry_after or 0) >= 1, worst
    return worst


def during(load: Load, seconds: float, longest: float) -> list[Answer]:
    """Probe over and over for as long as something is away."""
    found: list[Answer] = []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found.append(refused(load, longest))
    return found


def reads(apis: list[Api], slug: str) -> list[float]:
    """Read over REST through every process; the seconds it took."""
    took = []
    for api in apis:
        started = time.monotonic()
        assert api.server(slug)["id"] == slug
        api.get("/servers")
        api.get("/calls")
        took.append(time.monotonic() - started)
    return took


@run(
    "R05",
    "Redis killed and started: accepted calls all end, submitting answers ≤ 1 s, back ≤ 15 s",
    rounds=3,
    is_quick=True,
)
def kill_redis(stack: Stack, rounds: int) -> str:
    return lose_redis(
        stack,
        rounds,
        lambda: stack.programs.hold("redis"),
        lambda: stack.programs.release("redis"),
    )


def lose_redis(
    stack: Stack, rounds: int, fault: Callable[[], None], heal: Callable[[], None]
) -> str:
    slowest, back, total, slow_read = 0.0, 0.0, Counter[str](), 0.0
    for _ in range(rounds):
        with loaded(stack) as load:
            keys = load.send(IN_FLIGHT, ms=3000)
            load.until_running(keys)
            queued = load.send_later(QUEUED, ms=20)
            fault()
            answers = during(load, 4.0, REDIS_SECONDS)
            slow_read = max(slow_read, *reads(list(load.apis), load.slug))
            heal()
            back = max(back, load.works_again(15.0))
            slowest = max(slowest, *(answer.seconds for answer in answers))
            assert set(load.ends(keys)) == {"200"}, dict(load.ends(keys))
            total += load.sound()
            assert all(load.executions[key] == 1 for key in queued), "an accepted call was lost"
            stack.heal()
    return (
        f"answers ≤ {slowest:.2f} s, reads ≤ {slow_read:.2f} s, back ≤ {back:.1f} s, {dict(total)}"
    )


@run("R06", "Redis emptied with calls on the way: accepted calls all end, none twice", rounds=3)
def empty_redis(stack: Stack, rounds: int) -> str:
    total: Counter[str] = Counter()
    back = 0.0
    for _ in range(rounds):
        with loaded(stack) as load:
            keys = load.send(IN_FLIGHT, ms=2000)
            load.until_running(keys)
            queued = load.send_later(QUEUED, ms=20)
            stack.redis().flushall()
            back = max(back, load.works_again(15.0))
            assert set(load.ends(keys)) == {"200"}, dict(load.ends(keys))
            total += load.sound()
            assert all(load.executions[key] == 1 for key in queued), "an accepted call was lost"
            stack.heal()
    return f"works after ≤ {back:.1f} s, {dict(total)}"


@run("R07", "Redis hangs (SIGSTOP 10 s): no answer later than 3 s, back ≤ 60 s")
def hang_redis(stack: Stack, _rounds: int) -> str:
    with loaded(stack) as load:
        keys = load.send(IN_FLIGHT, ms=2000)
        load.until_running(keys)
        stack.programs["redis"].signal(signal.SIGSTOP)
        try:
            answers = during(load, 10.0, 3.0 - SLACK)
            took = reads(list(load.apis), load.slug)
        finally:
            stack.programs["redis"].signal(signal.SIGCONT)
        back = load.works_again(60.0)
        assert set(load.ends(keys)) == {"200"}, dict(load.ends(keys))
        found = load.sound()
    slowest = max(answer.seconds for answer in answers)
    return f"answers ≤ {slowest:.2f} s, reads ≤ {max(took):.2f} s, back {back:.1f} s, {dict(found)}"


@run(
    "R08",
    "PostgreSQL down, hanging, its answers lost: 503 ≤ 2 s, back ≤ 10 s, no call twice or lost",
    is_quick=True,
    needs_postgresql=True,
)
def lose_database(stack: Stack, _rounds: int) -> str:
    parts = []
    for mode in (Mode.DOWN, Mode.BLACK_HOLE):
        with loaded(stack) as load:
            keys = load.send(IN_FLIGHT, ms=3000)
            load.until_running(keys)
            queued = load.send_later(QUEUED, ms=20)
            stack.proxy.become(mode, ">database")
            answers = during(load, 5.0, DATABASE_SECONDS)
            slow_read = max(unreadable(api) for api in load.apis)
            stack.proxy.become(Mode.PASS, ">database")
            back = load.works_again(10.0)
            ends = load.ends(keys)
            assert set(ends) <= {"200", "unavailable", "busy"}, dict(ends)
            found = load.sound()
            assert all(load.executions[key] == 1 for key in (*keys, *queued)), "a call was lost"
            slowest = max(answer.seconds for answer in answers)
            name = mode.name.lower().replace("_", " ")
            parts.append(
                f"{name}: answers ≤ {slowest:.2f} s, reads {slow_read:.2f} s, "
                f"back {back:.1f} s, {dict(found)}"
            )
            eventually(stack.is_whole, 30.0, "the stack is whole")
    parts.append(lose_answers(stack))
    return "; ".join(parts)


def lose_answers(stack: Stack) -> str:
    """A worker's claims are committed, and it never hears of them."""
    with loaded(stack) as load:
        link = f"{held(load)}>database"
        load.ends(load.send(IN_FLIGHT, ms=1))  # the connection that claims stands and is in use
        stack.proxy.become(Mode.MUTE, link)
        queued = load.send_later(QUEUED, ms=20)
        eventually(lambda: is_claimed(load), 10.0, "calls are claimed")
        stack.proxy.become(Mode.DOWN, link)
        pause = time.monotonic() + 2.0
        eventually(lambda: time.monotonic() > pause, 3.0)
        stack.proxy.become(Mode.PASS, link)
        back = load.works_again(10.0)
        found = load.sound()
        assert all(load.executions[key] == 1 for key in queued), f"a call was lost: {dict(found)}"
    return f"answers lost: back {back:.1f} s, {len(queued)} accepted, {dict(found)}"


def is_claimed(load: Load) -> bool:
    statement = "SELECT 1 FROM connectors_toolcall WHERE server = %s AND status = 'sent'"
    return bool(load.stack.sql(statement, load.slug))


def unreadable(api: Api) -> float:
    """A list that needs the database says that it is away; the seconds it took."""
    started = time.monotonic()
    response = api.http.get("/api/v1/servers")
    took = time.monotonic() - started
    assert response.status_code == 503, f"{response.status_code} {response.text[:100]}"
    assert response.json()["code"] == "unavailable"
    assert took <= DATABASE_SECONDS + SLACK, f"a read was answered after {took:.1f} s"
    return took
