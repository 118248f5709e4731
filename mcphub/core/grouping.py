"""GroupWriter: many small writes of concurrent callers become one batch of a dedicated thread.

While the thread writes a batch, new items queue up and are the next batch: no artificial delay at
low load, few statements at high load. The thread owns its own database connection.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

from mcphub.core.errors import BusyError

Item = TypeVar("Item")
Answer = TypeVar("Answer")

logger = logging.getLogger(__name__)


class GroupWriter(Generic[Item, Answer]):
    """Write items in groups, in the order in which they came.

    `write` gets up to `largest` items and returns as many answers, in order. Its exception reaches
    every caller of that batch. `limit` bounds what may wait; past it `put` raises BusyError, so
    that a slow database is felt by callers instead of by memory.
    """

    def __init__(
        self,
        write: Callable[[Sequence[Item]], Sequence[Answer]],
        *,
        name: str,
        largest: int = 200,
        limit: int = 10_000,
        at_end: Callable[[], None] = lambda: None,
    ) -> None:
        """`at_end` runs on the thread after its last batch, to close what the thread opened."""
        self._write = write
        self._name = name
        self._largest = largest
        self._limit = limit
        self._at_end = at_end
        self._waiting: deque[tuple[Item, Future[Answer]]] = deque()
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closing = False

    def put(self, item: Item) -> Future[Answer]:
        """Queue one item; the future is done when its batch is committed. Any thread."""
        future: Future[Answer] = Future()
        future.set_running_or_notify_cancel()  # a cancelled future would fail its whole batch
        with self._wake:
            if len(self._waiting) >= self._limit or self._is_closing:
                raise BusyError
            self._waiting.append((item, future))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._wake.notify()
        return future

    async def write(self, item: Item) -> Answer:
        """As `put`, awaited. Cancelling the caller does not take the item back."""
        return await asyncio.shield(asyncio.wrap_future(self.put(item)))

    def close(self, seconds: float = 5.0) -> None:
        """Write what is queued and end the thread; bounded by `seconds`."""
        with self._wake:
            self._is_closing = True
            self._wake.notify()
            thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def _take(self) -> list[tuple[Item, Future[Answer]]]:
        with self._wake:
            while not self._waiting and not self._is_closing:
                self._wake.wait()
            count = min(len(self._waiting), self._largest)
            return [self._waiting.popleft() for _ in range(count)]

    def _run(self) -> None:
        while batch := self._take():
            try:
                answers = self._write([item for item, _ in batch])
                for (_, future), answer in zip(batch, answers, strict=True):
                    future.set_result(answer)
            except Exception as exc:
                logger.exception("group write failed writer=%s size=%d", self._name, len(batch))
                for _, future in batch:
                    if not future.done():
                        future.set_exception(exc)
        self._at_end()
