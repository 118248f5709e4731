"""What a keeper remembers of a connection, and the times that it keeps."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass

from connectors.services.leases import Lease
from mcphub.core.errors import HubError

Later = Callable[[float, Callable[[], None]], asyncio.TimerHandle]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Times of a keeper; tests bring their own timer."""

    jitter: Callable[[], float] = random.random
    later: Later | None = None
    refresh_seconds: float = 1.0
    wish_seconds: float = 10.0
    """After which wishes of downstream clients whose time is over are noticed."""
    stable_seconds: float = 30.0
    """A session that ends sooner counts as one more failed attempt."""


@dataclass(slots=True)
class Kept:
    """What is remembered of one connection between its steps."""

    lease: Lease | None = None
    opening: asyncio.Task[HubError | None] | None = None
    timer: asyncio.TimerHandle | None = None
    loss: HubError | None = None
    opened_at: float = float("-inf")
    attempt: int = 0
    next_opening: asyncio.Future[None] | None = None
    """Done when the timer has gone off."""

    def start_timer(self, later: Later, wait: float, go_off: Callable[[], None]) -> None:
        self.next_opening = asyncio.get_running_loop().create_future()
        self.timer = later(wait, go_off)

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.next_opening is not None and not self.next_opening.done():
            self.next_opening.set_result(None)
        self.next_opening = None
