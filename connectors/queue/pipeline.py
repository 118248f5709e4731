"""TickPipeline: the Redis commands of one tick of an event loop leave as one pipeline."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from mcphub.core import redis as hub_redis
from mcphub.core.errors import UnavailableError
from mcphub.core.per_loop import PerLoop

ANSWER_SECONDS = 0.8
LARGEST = 500

logger = logging.getLogger(__name__)

Command = tuple[Any, ...]
Waiting = list[tuple[Command, "asyncio.Future[Any] | None"]]


class TickPipeline:
    """Sends of concurrent tasks coalesce; it belongs to the loop that made it.

    While a pipeline is on its way the next one gathers, so load makes them larger, not more.
    """

    def __init__(self, client: Redis | None = None) -> None:
        self._client = client or _open_client()
        self._waiting: Waiting = []
        self._sender: asyncio.Task[None] | None = None
        self.dropped = 0

    async def call(self, *command: Any) -> Any:
        """Return the answer of one command, which may be sent twice.

        Raises UnavailableError: at once when Redis is away, within two seconds when it hangs.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._put(command, future)
        return await future

    def send(self, *command: Any) -> None:
        """Send a command whose answer nobody needs; counted in `dropped` when Redis is away."""
        self._put(command, None)

    async def flush(self) -> None:
        """Wait until what was put so far has been sent or dropped."""
        while self._sender is not None and not self._sender.done():
            await asyncio.wait({self._sender})

    async def aclose(self) -> None:
        await self.flush()
        await self._client.aclose()

    def _put(self, command: Command, future: asyncio.Future[Any] | None) -> None:
        self._waiting.append((command, future))
        if self._sender is None or self._sender.done():
            self._sender = asyncio.get_running_loop().create_task(self._send_waiting())

    async def _send_waiting(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:LARGEST], self._waiting[LARGEST:]
            try:
                answers = await self._exchange([command for command, _ in batch])
            except hub_redis.AWAY:
                self.dropped += sum(future is None for _, future in batch)
            else:
                for (_, future), answer in zip(batch, answers, strict=True):
                    _settle(future, answer)
            finally:  # whatever went wrong, nobody waits for ever
                for _, future in batch:
                    _settle(future, UnavailableError("Redis is away.", retry_after=1.0))

    async def _exchange(self, commands: list[Command]) -> list[Any]:
        try:
            return await self._exchange_once(commands)
        except TimeoutError:  # once more: a busy loop overruns its own timers
            return await self._exchange_once(commands)

    async def _exchange_once(self, commands: list[Command]) -> list[Any]:
        async with asyncio.timeout(ANSWER_SECONDS):
            if len(commands) == 1:
                return [await execute(self._client, *commands[0])]
            pipeline = self._client.pipeline(transaction=False)
            for command in commands:
                pipeline.execute_command(*command)
            return await pipeline.execute(raise_on_error=False)


def _open_client() -> Redis:
    """Return a client that reconnects once and does not wait: callers bound themselves."""
    client = hub_redis.open_async(read_seconds=ANSWER_SECONDS)
    client.set_retry(Retry(NoBackoff(), 1))
    return client


def execute(client: Any, *command: Any) -> Any:
    """Run one command as it is; redis-py does not type this method."""
    return client.execute_command(*command)


def _settle(future: asyncio.Future[Any] | None, answer: Any) -> None:
    if future is None or future.done():
        return
    if isinstance(answer, UnavailableError):
        future.set_exception(answer)
    elif isinstance(answer, RedisError):  # such as: out of memory, still loading
        logger.warning("redis refused a command: %s", answer)
        future.set_exception(UnavailableError("Redis cannot take this now.", retry_after=1.0))
    else:
        future.set_result(answer)


tick_pipeline: PerLoop[TickPipeline] = PerLoop(TickPipeline)
