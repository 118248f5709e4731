"""The six connection states and their legal moves (pure; API design §3).

A failing tool call never changes a state; only the services here named do, by conditional UPDATE.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Stored value; `wire` is the word in the API."""

    DISCONNECTED = "disconnected"
    AUTH_REQUIRED = "auth_required"
    AUTH_PENDING = "auth_pending"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    ERROR = "error"

    @property
    def wire(self) -> str:
        return {"auth_required": "authRequired", "auth_pending": "authPending"}.get(
            self.value, self.value
        )


MOVES: dict[State, frozenset[State]] = {
    State.DISCONNECTED: frozenset({State.CONNECTING, State.AUTH_REQUIRED}),
    State.CONNECTING: frozenset(
        {
            State.CONNECTED,
            State.CONNECTING,
            State.ERROR,
            State.AUTH_REQUIRED,
            State.DISCONNECTED,
        }
    ),
    State.CONNECTED: frozenset(
        {State.CONNECTING, State.DISCONNECTED, State.AUTH_REQUIRED, State.ERROR}
    ),
    State.ERROR: frozenset({State.CONNECTING, State.DISCONNECTED, State.AUTH_REQUIRED}),
    State.AUTH_REQUIRED: frozenset({State.AUTH_PENDING, State.CONNECTING, State.DISCONNECTED}),
    State.AUTH_PENDING: frozenset({State.CONNECTING, State.AUTH_REQUIRED, State.DISCONNECTED}),
}

BACKOFF_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Waits before the automatic attempts 1 … 5; after the last one the connection is in `error`."""


def may_move(current: State, to: State) -> bool:
    return to in MOVES[current]


def backoff(attempt: int, jitter: float) -> float | None:
    """Seconds before automatic attempt `attempt` (1-based), or None when there is none left.

    `jitter` is a number in [0, 1); the wait is spread by ±20 % so that clients do not return in
    step.
    """
    if attempt > len(BACKOFF_SECONDS):
        return None
    return BACKOFF_SECONDS[attempt - 1] * (0.8 + 0.4 * jitter)
