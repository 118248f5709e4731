"""publish(): the one door by which events reach a principal's stream; event_feed.py reads it.

Channels' `group_send` is not used: it needs an event loop and a round trip of its own, where the
appending script can PUBLISH at no extra one (decision 0005). The sockets themselves are Channels'.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from redis import Redis
from redis.exceptions import NoScriptError, RedisError

from mcphub.core import clock, redis
from mcphub.core.event_stream import (
    APPEND,
    CURRENT,
    IDLE_SECONDS,
    STREAM_LENGTH,
    EventGroup,
    Route,
)
from mcphub.core.types import JSONObject

__all__ = [
    "EventGroup",
    "PublisherCounts",
    "counts",
    "current_seq",
    "flush",
    "publish",
    "traced_among",
]

MAX_WAITING = 10_000
MAX_WAITING_BYTES = 8 << 20
MAX_EVENT_BYTES = 128 << 10
LINGER_SECONDS = 0.025
PROGRESS_SECONDS = 0.1
BATCH = 500
BACKOFF_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.0)

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Waiting:
    group: EventGroup
    route: Route
    text: str
    is_traced: bool


@dataclass(slots=True)
class _Progress:
    """Progress of one call: when it was queued last, and the newest that came too early since."""

    queued_at: float
    held: _Waiting | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherCounts:
    """What became of the events of this process."""

    published: int
    dropped: int


class Publisher:
    """Bounded queue and one sender thread; `publish()` below is the process's own."""

    def __init__(self) -> None:
        self._wake = threading.Condition()
        self._hurry = threading.Event()
        self._queue: deque[_Waiting] = deque()
        self._bytes = 0
        self._progress: dict[tuple[EventGroup, str], _Progress] = {}
        self._holes: dict[EventGroup, None] = {}
        self._thread: threading.Thread | None = None
        self._is_idle = False
        self._is_sending = False
        self._published = 0
        self._dropped = 0
        self._failures = 0
        self._redis: Redis | None = None
        self._script = ""

    def put(self, group: EventGroup, event: JSONObject, *, only_if_traced: bool) -> None:
        route = Route.of(event)
        try:
            text = json.dumps(
                {"ts": clock.now().isoformat(timespec="milliseconds"), **event},
                separators=(",", ":"),
                allow_nan=False,
            )
        except (TypeError, ValueError, RecursionError):
            logger.exception("event is not JSON type=%s", route.type)
            text = ""
        waiting = _Waiting(group, route, text, only_if_traced)
        with self._wake:
            if not text or len(text) > MAX_EVENT_BYTES:
                self._lose(group)
            elif route.type != "call.progress" or not route.call:
                self._release(self._progress.pop((group, route.call), None) if route.call else None)
                self._append(waiting)
            else:
                self._put_progress(waiting)
            self._start()
            if self._is_idle:
                self._is_idle = False
                self._wake.notify_all()

    def flush(self, seconds: float) -> bool:
        """Wait until everything queued was tried; False when `seconds` were not enough."""
        with self._wake:
            for progress in self._progress.values():
                self._release(progress)
            self._hurry.set()
            self._wake.notify_all()
            is_done = self._wake.wait_for(self._is_drained, seconds)
            self._hurry.clear()
            return is_done

    def counts(self) -> PublisherCounts:
        with self._wake:
            return PublisherCounts(published=self._published, dropped=self._dropped)

    def _is_drained(self) -> bool:
        return not self._queue and not self._is_sending and not self._holes

    def _append(self, waiting: _Waiting) -> None:
        self._queue.append(waiting)
        self._bytes += len(waiting.text)
        while len(self._queue) > MAX_WAITING or self._bytes > MAX_WAITING_BYTES:
            oldest = self._queue.popleft()
            self._bytes -= len(oldest.text)
            self._lose(oldest.group)

    def _lose(self, group: EventGroup, count: int = 1) -> None:
        self._dropped += count
        self._holes[group] = None

    def _put_progress(self, waiting: _Waiting) -> None:
        """Queue at most one progress event per call and PROGRESS_SECONDS: the newest."""
        moment = time.monotonic()
        progress = self._progress.get((waiting.group, waiting.route.call))
        if progress is not None and moment - progress.queued_at < PROGRESS_SECONDS:
            progress.held = waiting
            return
        self._progress[(waiting.group, waiting.route.call)] = _Progress(moment)
        self._append(waiting)

    def _release(self, progress: _Progress | None) -> None:
        if progress is not None and progress.held is not None:
            self._append(progress.held)
            progress.held = None
            progress.queued_at = time.monotonic()

    def _start(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="events", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            self._wait()
            self._hurry.wait(LINGER_SECONDS)
            with self._wake:
                count = min(BATCH, len(self._queue))
                batch = [self._queue.popleft() for _ in range(count)]
                self._bytes -= sum(len(waiting.text) for waiting in batch)
                holes, self._holes = self._holes, {}
                self._is_sending = True
            is_sent = self._send(batch, holes)
            with self._wake:
                self._is_sending = False
                self._wake.notify_all()
            if not is_sent:
                time.sleep(BACKOFF_SECONDS[min(self._failures, len(BACKOFF_SECONDS)) - 1])

    def _wait(self) -> None:
        """Return when something is to be sent; progress that was held is released when due."""
        with self._wake:
            while not self._queue and not self._holes:
                held = [p for p in self._progress.values() if p.held is not None]
                moment = time.monotonic()
                for progress in held:
                    if moment - progress.queued_at >= PROGRESS_SECONDS:
                        self._release(progress)
                if self._queue:
                    return
                self._forget_progress(moment)
                self._is_idle = True
                self._wake.wait(PROGRESS_SECONDS / 2 if held else None)
                self._is_idle = False

    def _forget_progress(self, moment: float) -> None:
        self._progress = {
            key: progress
            for key, progress in self._progress.items()
            if progress.held is not None or moment - progress.queued_at < PROGRESS_SECONDS
        }

    def _send(self, batch: list[_Waiting], holes: Iterable[EventGroup]) -> bool:
        """Append the batch, one script call per group. What fails is lost, and marked as a hole.

        Not tried again: an append whose answer got lost would be there twice.
        """
        by_group: dict[EventGroup, list[_Waiting]] = {group: [] for group in holes}
        for waiting in batch:
            by_group.setdefault(waiting.group, []).append(waiting)
        marked = frozenset(holes)
        try:
            failed = self._append_all(by_group, marked)
        except (RedisError, OSError) as exc:
            logger.warning("events not published: %s count=%d", type(exc).__name__, len(batch))
            failed = set(by_group)
        with self._wake:
            for group in failed:
                self._lose(group, len(by_group[group]))
            self._published += sum(len(e) for g, e in by_group.items() if g not in failed)
            self._failures = self._failures + 1 if failed else 0
        return not failed

    def _append_all(
        self, by_group: dict[EventGroup, list[_Waiting]], marked: frozenset[EventGroup]
    ) -> set[EventGroup]:
        client = self._client()
        groups = list(by_group)
        answers = self._evaluate(client, groups, by_group, marked)
        if any(isinstance(answer, NoScriptError) for answer in answers):
            client.script_load(APPEND)
            unknown = [g for g, a in zip(groups, answers, strict=True) if _is_no_script(a)]
            again = dict(
                zip(unknown, self._evaluate(client, unknown, by_group, marked), strict=True)
            )
            answers = [again.get(g, a) for g, a in zip(groups, answers, strict=True)]
        return {g for g, a in zip(groups, answers, strict=True) if isinstance(a, Exception)}

    def _evaluate(
        self,
        client: Redis,
        groups: list[EventGroup],
        by_group: dict[EventGroup, list[_Waiting]],
        marked: frozenset[EventGroup],
    ) -> list[object]:
        pipeline = client.pipeline(transaction=False)
        for group in groups:
            arguments: list[str | int] = [IDLE_SECONDS, STREAM_LENGTH, group.doorbell]
            arguments += [group.trace_channel, int(group in marked)]
            for waiting in by_group[group]:
                arguments += (int(waiting.is_traced), str(waiting.route), waiting.text)
            pipeline.evalsha(self._script, 2, group.stream, group.counter, *arguments)
        return list(pipeline.execute(raise_on_error=False))

    def _client(self) -> Redis:
        if self._redis is None:
            client = redis.open_sync(retries=0)
            self._script = str(client.register_script(APPEND).sha)
            self._redis = client
        return self._redis


def _is_no_script(answer: object) -> bool:
    return isinstance(answer, NoScriptError)


_publisher = Publisher()


def _after_fork() -> None:
    global _publisher  # noqa: PLW0603  (a child has neither the thread nor the connection)
    _publisher = Publisher()


os.register_at_fork(after_in_child=_after_fork)


def publish(group: EventGroup, event: JSONObject, *, only_if_traced: bool = False) -> None:
    """Queue one event `{"type": …}` for the group's stream; never blocks, never raises.

    Any thread, any loop; order per group is kept within a process. `call.progress` is coalesced to
    ten per second and call. `only_if_traced` events are dropped unless somebody listens for
    traces. Inside a transaction call it on commit. An event that is too large reaches readers as
    `resync`.
    """
    _publisher.put(group, event, only_if_traced=only_if_traced)


def flush(seconds: float = 2.0) -> bool:
    """Wait until the events of this process were sent or lost; False when that took too long."""
    return _publisher.flush(seconds)


def counts() -> PublisherCounts:
    """Return how many events of this process were appended and how many were lost."""
    return _publisher.counts()


def current_seq(group: EventGroup) -> int:
    """Return the number of the group's newest event; 0 (replay is then a resync) without Redis."""
    try:
        answer = redis.shared().eval(CURRENT, 2, group.stream, group.counter, IDLE_SECONDS)
        return int(str(answer, "ascii") if isinstance(answer, bytes) else str(answer))
    except (RedisError, OSError):
        return 0


def traced_among(groups: Iterable[EventGroup]) -> frozenset[EventGroup]:
    """Return the groups for which somebody listens for traces; none of them without Redis."""
    asked = list(groups)
    try:
        counted = redis.shared().pubsub_numsub(*(group.trace_channel for group in asked))
    except (RedisError, OSError):
        return frozenset()
    return frozenset(g for g, (_, count) in zip(asked, counted, strict=True) if count)
