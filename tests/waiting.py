"""Waiting for what another process does: bounded polling, the only kind that the suite knows."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from threading import Event
from typing import TypeVar

Value = TypeVar("Value")

STEP_SECONDS = 0.05


def eventually(predicate: Callable[[], Value], seconds: float = 10.0, what: str = "") -> Value:
    """Return the first true value of `predicate`; fail with `what` when there is none in time."""
    deadline = time.monotonic() + seconds
    pause = Event()
    while not (value := predicate()):
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what or predicate.__name__}")
        pause.wait(STEP_SECONDS)
    return value


async def becomes_true(predicate: Callable[[], object], seconds: float) -> bool:
    """Whether `predicate` becomes true in time; other tasks of the loop go on meanwhile."""
    deadline = time.monotonic() + seconds
    while not predicate():
        if time.monotonic() >= deadline:
            return False
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), STEP_SECONDS)
    return True
