"""The soak: steady calls for a while, a fault each minute, and what that leaves behind.

`worker1` and `web1` are never ended, so that what they gather over the whole time can be seen.
"""

from __future__ import annotations

import random
import secrets
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import cycle
from statistics import fmean, linear_regression

from chaos import usage
from chaos.load import Load, loaded
from chaos.proxy import Mode
from chaos.stack import Stack
from chaos.usage import Usage
from chaos.verdict import Row
from tests.fakes.mcp_servers import Kind
from tests.waiting import eventually

CALLS_PER_SECOND = 5
MINUTE = 60.0
FAULT_AT = 10.0
"""Into each minute; the rest of it is for coming back."""
WARM_MINUTES = 3
"""Left out of the comparison: caches fill and pools open."""
LASTING = ("worker1", "web1")
SLACK = {"descriptors": 12, "tasks": 12, "threads": 4}
FLAT = 1.10


@dataclass(frozen=True, slots=True)
class Fault:
    """What breaks for `seconds`; `strike` breaks it, `mend` ends that."""

    name: str
    strike: Callable[[Stack], None]
    mend: Callable[[Stack], None] = lambda stack: None
    seconds: float = 0.0


def signals(program: str, number: int) -> Callable[[Stack], None]:
    return lambda stack: stack.programs[program].signal(number)


def turns(mode: Mode, link: str) -> Callable[[Stack], None]:
    return lambda stack: stack.proxy.become(mode, link)


def away(name: str, mode: Mode, link: str, seconds: float) -> Fault:
    return Fault(name, turns(mode, link), turns(Mode.PASS, link), seconds)


def asleep(program: str, seconds: float) -> Fault:
    strike, mend = signals(program, signal.SIGSTOP), signals(program, signal.SIGCONT)
    return Fault(f"{program} hangs", strike, mend, seconds)


def forget(stack: Stack) -> None:
    stack.redis().flushall()


FAULTS = (
    Fault("worker2 killed", signals("worker2", signal.SIGKILL)),
    Fault("redis killed", signals("redis", signal.SIGKILL)),
    away("database connections reset", Mode.RESET, ">database", 1.0),
    Fault("web2 killed", signals("web2", signal.SIGKILL)),
    asleep("worker2", 10.0),
    away("servers reset", Mode.RESET, ">server", 3.0),
    Fault("redis emptied", forget),
    away("database hangs", Mode.BLACK_HOLE, ">database", 4.0),
    Fault("worker2 asked to end", signals("worker2", signal.SIGTERM)),
    asleep("redis", 4.0),
    Fault("beat killed", signals("beat", signal.SIGKILL)),
    away("servers down", Mode.DOWN, ">server", 5.0),
    away("database answers lost", Mode.MUTE, "worker1>database", 4.0),
)


@dataclass(slots=True)
class Soak:
    """A steady stream of calls to a server of each era, and the samples taken meanwhile."""

    stack: Stack
    loads: Sequence[Load]
    dice: random.Random = field(default_factory=lambda: random.Random(41))
    samples: dict[str, list[Usage]] = field(default_factory=lambda: {n: [] for n in LASTING})
    keys: list[tuple[Load, str]] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)

    def minute(self, fault: Fault) -> None:
        """Call, break, mend, call on; then look at the processes that lasted."""
        started = time.monotonic()
        strike_at, mend_at = started + FAULT_AT, started + FAULT_AT + fault.seconds
        steps = [(strike_at, fault.strike), (mend_at, fault.mend)]
        while (now := time.monotonic()) < started + MINUTE:
            while steps and now >= steps[0][0]:
                steps.pop(0)[1](self.stack)
            self._call()
            next_at = now + 1 / CALLS_PER_SECOND
            eventually(lambda at=next_at: time.monotonic() >= at, 2.0)  # type: ignore[misc]
        self._settle()
        for name in LASTING:
            self.samples[name].append(usage.of(self.stack, name))

    def _call(self) -> None:
        load, key = self.dice.choice(self.loads), secrets.token_hex(6)
        api, milliseconds = self.dice.choice(load.apis), self.dice.choice([1, 5, 50, 500, 3000])
        load.answers[key] = load.threads.submit(load.ask, api, key, milliseconds)
        self.keys.append((load, key))

    def _settle(self) -> None:
        """Count the answers that are there, so that they are not kept for half an hour."""
        waiting = []
        for load, key in self.keys:
            if load.answers[key].done():
                self.ends += load.ends([key])
                del load.answers[key]
            else:
                waiting.append((load, key))
        self.keys = waiting


def soak(stack: Stack, minutes: int) -> Row:
    """Run it; the row says what was left behind."""
    started = time.monotonic()
    with ExitStack() as open_ones:
        loads = [
            open_ones.enter_context(loaded(stack, kind, is_behind_proxy=True))
            for kind in (Kind.LEGACY, Kind.MODERN)
        ]
        run = Soak(stack, loads)
        problems: list[str] = []
        for number, fault in zip(range(minutes), cycle(FAULTS)):
            run.minute(fault)
            print(f"{number + 1} min: {fault.name}; {dict(run.ends)}", file=sys.stderr, flush=True)
        stack.heal()
        for load in loads:
            load.works_again()
            problems += problems_of(load)
        run.ends += sum((load.ends(list(load.answers)) for load in loads), Counter())
        problems += [text for name in LASTING for text in grown(name, run.samples[name])]
    usages = [described(name, run.samples[name]) for name in LASTING]
    return Row(
        id="R41",
        rounds=minutes,
        invariant="steady calls, a fault a minute: none twice or stuck, descriptors and tasks flat",
        holds=not problems,
        measured="; ".join([*problems, f"{run.ends.total()} calls {dict(run.ends)}", *usages]),
        seconds=time.monotonic() - started,
    )


def problems_of(load: Load) -> list[str]:
    """I1 and I2, as texts."""
    try:
        load.sound()
    except AssertionError as exc:
        return [str(exc)]
    return []


def grown(name: str, samples: Sequence[Usage]) -> list[str]:
    """Compare the last third with the first one after the start."""
    third = max(1, (len(samples) - WARM_MINUTES) // 3)
    early, late = samples[WARM_MINUTES : WARM_MINUTES + third], samples[-third:]
    found = []
    for what, slack in SLACK.items():
        before = fmean(getattr(each, what) for each in early or late)
        after = fmean(getattr(each, what) for each in late)
        if after > before * FLAT + slack:
            found.append(f"{name}: {what} grew from {before:.0f} to {after:.0f}")
    return found


def described(name: str, samples: Sequence[Usage]) -> str:
    """Say what a process used at the end, and how fast its memory grew after the start."""
    settled = samples[WARM_MINUTES:] or samples
    last = samples[-1]
    slope = 0.0
    if len(settled) > 1:
        hours = [each.at / 3600 for each in settled]
        slope = linear_regression(hours, [each.resident_kib / 1024 for each in settled]).slope
    return (
        f"{name}: {settled[0].resident_kib // 1024} → {last.resident_kib // 1024} MiB "
        f"({slope:+.1f} MiB/h), descriptors {settled[0].descriptors} → {last.descriptors}, "
        f"tasks {settled[0].tasks} → {last.tasks}, threads {settled[0].threads} → {last.threads}"
    )
