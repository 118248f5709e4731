"""A subscription of an event loop that outlives restarts of Redis; one task, bounded waits."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

from redis.exceptions import RedisError

from mcphub.core import redis as hub_redis
from mcphub.core.errors import UnavailableError

START_SECONDS = 0.8
SILENT_SECONDS = 10.0
BACKOFF_FIRST, BACKOFF_LAST = 0.05, 1.0

logger = logging.getLogger(__name__)


class Subscription:
    """Calls `on_message` with the data of each message of its channels.

    What is published while Redis is away is lost: whoever needs it has another way to find out, or
    is told by `on_gap` when messages arrive again.
    """

    def __init__(
        self,
        *channels: str,
        on_message: Callable[[bytes], None],
        on_gap: Callable[[], None] = lambda: None,
    ) -> None:
        self._channels = set(channels)
        self._on_message = on_message
        self._on_gap = on_gap
        self._is_listening = asyncio.Event()
        self._has_listened = False
        self._confirmed: dict[str, asyncio.Event] = {}
        self._pubsub: Any = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Return when messages can arrive. Raises UnavailableError within a second."""
        if self._is_listening.is_set():
            return
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._is_listening.wait()
        except TimeoutError as exc:
            raise UnavailableError("Redis is away.", retry_after=1.0) from exc

    async def add(self, channel: str) -> None:
        """As `start`, for one more channel; one that is heard already is fine."""
        confirmed = self._confirmed.setdefault(channel, asyncio.Event())
        is_new = channel not in self._channels
        self._channels.add(channel)
        await self.start()
        if is_new and self._pubsub is not None and not confirmed.is_set():
            with contextlib.suppress(*hub_redis.AWAY):  # the next connection subscribes to all
                await self._pubsub.subscribe(channel)
        try:
            async with asyncio.timeout(START_SECONDS):
                await confirmed.wait()
        except TimeoutError as exc:
            raise UnavailableError("Redis is away.", retry_after=1.0) from exc

    async def remove(self, channel: str) -> None:
        """Hear a channel no more."""
        self._channels.discard(channel)
        self._confirmed.pop(channel, None)
        if self._pubsub is not None:
            with contextlib.suppress(*hub_redis.AWAY):
                await self._pubsub.unsubscribe(channel)

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        wait = BACKOFF_FIRST
        while True:
            client = hub_redis.open_async(read_seconds=None)
            pubsub: Any = client.pubsub()  # not typed by redis-py
            try:
                await pubsub.subscribe(*self._channels)
                self._pubsub = pubsub
                while True:
                    self._take(await _next_message(pubsub))
                    wait = BACKOFF_FIRST
            except hub_redis.AWAY as exc:
                logger.warning("subscription away, again in %.2f s: %s", wait, type(exc).__name__)
            finally:
                self._pubsub = None
                self._is_listening.clear()
                for confirmed in self._confirmed.values():
                    confirmed.clear()
                with contextlib.suppress(RedisError, OSError):
                    await pubsub.aclose()
                    await client.aclose()
            await asyncio.sleep(wait)
            wait = min(wait * 2, BACKOFF_LAST)

    def _take(self, message: dict[str, Any]) -> None:
        if message["type"] == "subscribe":
            self._confirm(message["channel"].decode())
        elif message["type"] == "message":
            self._on_message(message["data"])

    def _confirm(self, channel: str) -> None:
        if channel in self._confirmed:
            self._confirmed[channel].set()
        if self._is_listening.is_set():
            return
        self._is_listening.set()
        if self._has_listened:
            self._on_gap()
        self._has_listened = True


async def _next_message(pubsub: Any) -> dict[str, Any]:
    """Return the next message. Raises TimeoutError when a silent server answers no ping either."""
    for _ in range(2):
        message: dict[str, Any] | None = await pubsub.get_message(timeout=SILENT_SECONDS)
        if message is not None:
            return message
        async with asyncio.timeout(START_SECONDS):
            await pubsub.ping()
    raise TimeoutError
