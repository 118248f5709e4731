"""Time: the one door to the wall clock, and deadlines on the monotonic clock."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime


def now() -> datetime:
    """Return the current instant, timezone-aware UTC."""
    return datetime.now(tz=UTC)


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point on this machine's monotonic clock; seconds everywhere."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        return cls(time.monotonic() + seconds)

    @property
    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.at - time.monotonic())

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.at


class MovableDeadline(Deadline):
    """A deadline that moves while a person is asked; who has a timer for it looks again."""

    __slots__ = ()

    def move(self, seconds: float) -> None:
        object.__setattr__(self, "at", self.at + seconds)
