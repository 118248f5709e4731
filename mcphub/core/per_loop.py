"""PerLoop: one object per event loop, so that nothing loop-bound lives in module state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")


class PerLoop(Generic[T]):
    """Calling it returns the running loop's own object, made on first use."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: WeakKeyDictionary[asyncio.AbstractEventLoop, T] = WeakKeyDictionary()

    def __call__(self) -> T:
        loop = asyncio.get_running_loop()
        found = self._made.get(loop)
        if found is None:
            found = self._made[loop] = self._make()
        return found

    def take(self) -> T | None:
        """Forget and return the running loop's object, so that its owner can close it."""
        return self._made.pop(asyncio.get_running_loop(), None)
