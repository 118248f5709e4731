"""The calls in flight of one session: ids, timers and progress."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from connectors.upstream.contract import UpstreamRequest
from connectors.upstream.http_layer import HttpSeen
from mcphub.core.clock import MovableDeadline
from mcphub.core.types import JSONObject, JSONValue

ASKING_SECONDS = 1e6
"""By which a deadline is put off while a person is asked; who asks bounds that time."""
GRACE = 0.25
"""Seconds by which the transport's own deadline goes first: it knows whether anything was sent."""


@dataclass(slots=True, eq=False)
class Call:
    """One request in flight."""

    id: int
    request: UpstreamRequest
    message: JSONObject
    started: float = field(default_factory=time.monotonic)
    deadline: MovableDeadline = field(init=False)
    timer: asyncio.Timeout | None = None
    is_answer_seen: bool = False
    has_foreign_answer: bool = False
    """Whether an answer for another request came in its place."""
    is_standing: bool = False
    """Whether it is a stream that the session keeps open for itself, not a call of the host."""
    on_notification: Callable[[str, JSONObject], None] | None = None
    last_event_id: str = ""
    http: HttpSeen | None = None
    _asking: int = 0
    _asking_since: float = 0.0

    def __post_init__(self) -> None:
        self.deadline = MovableDeadline(self.request.deadline.at)

    def arm(self) -> None:
        """Set the timer to what ends first: the idle time from now on, or the deadline."""
        if self.timer is None:
            return
        if self._asking:
            self.timer.reschedule(None)
            return
        remaining = self.deadline.remaining + GRACE
        if self.request.idle_timeout is not None:
            remaining = min(remaining, self.request.idle_timeout)
        self.timer.reschedule(asyncio.get_running_loop().time() + remaining)

    def on_progress(self, params: JSONObject) -> None:
        if self.request.idle_timeout is not None and not self.deadline.is_over:
            self.arm()
        if self.request.on_progress is not None:
            self.request.on_progress(params)

    def pause(self) -> None:
        """Stop the clock: the server waits for somebody's answer. Pauses nest."""
        self._asking += 1
        if self._asking == 1:
            self._asking_since = time.monotonic()
            self.deadline.move(ASKING_SECONDS)
            self.arm()

    def go_on(self) -> None:
        """Start the clock again where it stopped."""
        self._asking -= 1
        if not self._asking:
            self.deadline.move(time.monotonic() - self._asking_since - ASKING_SECONDS)
            if self.timer is not None and not self.timer.expired():
                self.arm()


class Calls:
    """Ids of one session, never used twice, and the calls that are open."""

    __slots__ = ("_last_id", "_open")

    def __init__(self) -> None:
        self._last_id = 0
        self._open: dict[int, Call] = {}

    def next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def start_after(self, number: int) -> None:
        self._last_id = number

    def add(self, call: Call) -> None:
        self._open[call.id] = call

    def remove(self, call: Call) -> None:
        self._open.pop(call.id, None)

    def get(self, request_id: JSONValue) -> Call | None:
        """Return the open call with this id or progress token, also in string form."""
        if isinstance(request_id, str) and request_id.isdecimal() and len(request_id) < 20:
            request_id = int(request_id)
        if isinstance(request_id, bool) or not isinstance(request_id, int | float):
            return None
        return self._open.get(int(request_id)) if request_id == request_id // 1 else None

    def only(self) -> Call | None:
        """Return the call in flight when there is exactly one."""
        return next(iter(self._open.values())) if len(self._open) == 1 else None

    def only_of_host(self) -> Call | None:
        """Return the call that the host made for somebody when there is exactly one."""
        found = [call for call in self._open.values() if call.request.call_id is not None]
        return found[0] if len(found) == 1 else None

    def __iter__(self) -> Iterator[Call]:
        return iter(tuple(self._open.values()))

    def __len__(self) -> int:
        return len(self._open)
