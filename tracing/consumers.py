"""The event socket `/ws/v1/events`: hello, subscribe, events in order, resync, ping and pong."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable
from contextlib import suppress

from mcphub.core.errors import (
    HubError,
    InvalidInputError,
    NotFoundError,
    NotPermittedError,
    UnavailableError,
)
from mcphub.core.types import JSONObject
from tenants.sockets import NOT_PERMITTED, TRY_AGAIN, TenantConsumer
from tracing.live import LiveEvents, envelope, read_since

BAD_MESSAGE = 4400
NOT_FOUND = 4404
MAX_MESSAGE = 16 << 10
SEND_SECONDS = 20.0
CLOSE_SECONDS = 1.0

logger = logging.getLogger(__name__)


class EventsConsumer(TenantConsumer):
    """A client that does not read gets a resync when it reads again, and is let go after 20 s."""

    channel_layer_alias = ""
    """None: events are read from the stream, so a socket costs no subscription of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._live: LiveEvents | None = None
        self._writer: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    async def opened(self) -> None:
        try:
            self._live = await LiveEvents.open(self.principal)
        except UnavailableError as exc:
            await self.close(TRY_AGAIN, exc.problem_code)
            return
        await self.send(text_data=envelope("hello", position=self._live.position))
        self._writer = asyncio.create_task(self._write(self._live), name="event socket")

    async def closed(self, code: int) -> None:
        self._stop_writing()
        if self._live is not None:
            await self._live.close()

    async def close(self, code: int | bool | None = None, reason: str | None = None) -> None:  # noqa: FBT001  (as Channels has it)
        self._stop_writing()
        await super().close(code, reason)

    async def principal_changed(self) -> None:
        if self._live is not None:
            await self._or_close(self._live.principal_changed(self.principal))

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self._live is None:
            return
        try:
            message = _parse(text_data)
        except InvalidInputError as exc:
            await self.close(BAD_MESSAGE, exc.problem_code)
            return
        match message.get("type"):
            case "ping":
                await self._answer(envelope("pong"))
            case "subscribe":
                await self._or_close(self._subscribe(self._live, message))
            case _:
                await self.close(BAD_MESSAGE, "unknown_message")

    async def _subscribe(self, live: LiveEvents, message: JSONObject) -> None:
        topics = message.get("topics")
        if not isinstance(topics, list) or not all(isinstance(topic, str) for topic in topics):
            raise InvalidInputError("`topics` is a list of texts.")
        named = [str(topic) for topic in topics]
        async with self._turn:
            await live.subscribe(named, read_since(message.get("since")))
            told = envelope("subscribed", seq=live.position, topics=list(topics))
            await self.send(text_data=told)

    async def _or_close(self, work: Awaitable[None]) -> None:
        try:
            await work
        except HubError as exc:
            await self.close(_close_code(exc), exc.problem_code)

    async def _answer(self, text: str) -> None:
        async with self._turn:
            await self.send(text_data=text)

    async def _write(self, live: LiveEvents) -> None:
        try:
            while True:
                for _, text in await live.messages():
                    async with asyncio.timeout(SEND_SECONDS):
                        await self._answer(text)
        except TimeoutError:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self.close(TRY_AGAIN, "too_slow")
        except OSError:
            logger.debug("event socket: the client is gone")
        except Exception:
            logger.exception("event socket failed")
            await self.close(TRY_AGAIN, "internal_error")

    def _stop_writing(self) -> None:
        if self._writer is not None and self._writer is not asyncio.current_task():
            self._writer.cancel()


def _parse(text: str | None) -> JSONObject:
    try:
        message = json.loads(text) if text and len(text) <= MAX_MESSAGE else None
    except (ValueError, RecursionError) as exc:
        raise InvalidInputError("A message is a JSON object.") from exc
    if not isinstance(message, dict):
        raise InvalidInputError("A message is a JSON object.")
    return message


def _close_code(exc: HubError) -> int:
    if isinstance(exc, NotFoundError):
        return NOT_FOUND
    return NOT_PERMITTED if isinstance(exc, NotPermittedError) else BAD_MESSAGE
