"""The registry of runs, and the table that they fill."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from chaos.stack import Stack

Body = Callable[[Stack, int], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One test of the reliability plan; `body` returns what it measured or fails an assertion."""

    id: str
    invariant: str
    body: Body
    rounds: int
    is_quick: bool
    needs_postgresql: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table; `holds` None: it could not be run here."""

    id: str
    rounds: int
    invariant: str
    holds: bool | None
    measured: str
    seconds: float

    @property
    def result(self) -> str:
        return {True: "holds", False: "BROKEN", None: "not run"}[self.holds]


RUNS: dict[str, Run] = {}


def run(
    name: str,
    invariant: str,
    *,
    rounds: int = 1,
    is_quick: bool = False,
    needs_postgresql: bool = False,
) -> Callable[[Body], Body]:
    """Register a run under its id; `is_quick` puts it into the suite's subset."""

    def register(body: Body) -> Body:
        RUNS[name] = Run(
            id=name,
            invariant=invariant,
            body=body,
            rounds=rounds,
            is_quick=is_quick,
            needs_postgresql=needs_postgresql,
        )
        return body

    return register


def execute(stack: Stack, chosen: Iterable[Run], rounds: int | None) -> Iterable[Row]:
    """Run one after the other, each on a whole stack."""
    for each in chosen:
        count = rounds if rounds is not None and each.rounds > 1 else each.rounds
        started = time.monotonic()
        holds: bool | None = None
        if each.needs_postgresql and not stack.is_postgresql:
            measured = "needs PostgreSQL"
        else:
            holds, measured = _judge(stack, each, count)
        yield Row(
            id=each.id,
            rounds=count,
            invariant=each.invariant,
            holds=holds,
            measured=measured,
            seconds=time.monotonic() - started,
        )


def _judge(stack: Stack, each: Run, count: int) -> tuple[bool, str]:
    try:
        stack.heal()
        measured = each.body(stack, count)
    except Exception as exc:  # noqa: BLE001  (one broken promise must not hide the others)
        traceback.print_exc()
        text = (str(exc) or type(exc).__name__).splitlines()[0]
        return False, text[:200]
    return True, measured
