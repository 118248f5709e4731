"""Notices: what servers say outside of calls, on its way from workers to the web processes.

One Redis channel per member. What is published while a process does not hear it is lost, which it
is told (`LOST`), so that it can have everything looked at again.

list_changed    published when the stored catalog is new, whatever made it so
`CONNECTION`    the hub's own: the connection was opened or ended
the rest        as the server said it, at most every PERIOD a connection, the newest of each kind
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol

from django.db import transaction
from redis.exceptions import RedisError

from connectors.models import ListingKind
from connectors.queue import TickPipeline, tick_pipeline
from connectors.queue.lanes import sync_client
from connectors.services.notice_queue import LIST_CHANGES, MESSAGE, Notice, NoticeQueue
from connectors.upstream.contract import UpstreamRequest
from connectors.upstream.host import SessionKey
from mcphub.core import redis as hub_redis
from mcphub.core.errors import LimitError
from mcphub.core.per_loop import PerLoop
from mcphub.core.pubsub import Subscription
from mcphub.core.types import JSONObject

PERIOD = 0.05
NOTICE_BYTES = 64 << 10
MOST_LISTENERS = 1000
"""Of one member in one process."""

CONNECTION = "mcphub/connection"
LOST = "mcphub/lost"
NOBODY = uuid.UUID(int=0)
"""The connection of `LOST`, which is about all of them."""

LIST_CHANGED = {
    ListingKind.TOOLS: "notifications/tools/list_changed",
    ListingKind.RESOURCES: "notifications/resources/list_changed",
    ListingKind.TEMPLATES: "notifications/resources/list_changed",
    ListingKind.PROMPTS: "notifications/prompts/list_changed",
}
NEVER = LIST_CHANGES | {
    "notifications/cancelled",
    "notifications/initialized",
    "notifications/progress",
    "notifications/subscriptions/acknowledged",
}
"""Of one hop only, of a call, or told when the catalog is stored."""
ALWAYS = frozenset({"notifications/resources/updated", "notifications/elicitation/complete"})
TASK_STATUS = frozenset({"notifications/tasks/status", "notifications/tasks"})
"""Of a task (2025-11-25; the extension of 2026): told to its call while that is open."""

logger = logging.getLogger(__name__)


class Owner(Protocol):
    """Whose notices: a principal, a connection, the spec of a server."""

    @property
    def tenant_id(self) -> uuid.UUID: ...

    @property
    def member_id(self) -> uuid.UUID: ...


# --- worker side, and services ------------------------------------------------------------------


def is_notice(method: str, asker: UpstreamRequest | None) -> bool:
    """Whether a notification is for more than the call in whose course it came."""
    if method in ALWAYS:
        return True
    if method in NEVER:
        return False
    if method in TASK_STATUS:
        return asker is None or asker.on_notification is None
    return asker is None


def after_commit(owner: Owner, notice: Notice) -> None:
    """Publish from synchronous code; a notice that Redis does not take is logged."""
    transaction.on_commit(partial(_publish_now, _message(owner, [notice], 0), owner))


def lists_changed(owner: Owner, connection_id: uuid.UUID, kinds: Iterable[ListingKind]) -> None:
    """Tell after the commit that these lists are to be read again."""
    for method in sorted({LIST_CHANGED[kind] for kind in kinds}):
        after_commit(owner, Notice(connection_id=connection_id, method=method))


def _publish_now(message: bytes, owner: Owner) -> None:
    try:
        sync_client().publish(_channel(owner), message)
    except (RedisError, OSError):
        logger.warning("notice not published member=%s", owner.member_id)


class Outbox:
    """What the sessions of one worker have to tell; on the session host's loop."""

    def __init__(self) -> None:
        self._waiting: dict[SessionKey, NoticeQueue] = {}
        self._senders: set[asyncio.Task[None]] = set()

    def note(
        self, key: SessionKey, method: str, params: JSONObject, asker: UpstreamRequest | None
    ) -> None:
        """Take a notification; it leaves at once, or with the next after PERIOD."""
        if not is_notice(method, asker):
            return
        queue = self._waiting.get(key)
        if queue is None:
            queue = self._waiting[key] = NoticeQueue()
            task = asyncio.get_running_loop().create_task(self._send(key, queue))
            self._senders.add(task)
            task.add_done_callback(self._senders.discard)
        if len(json.dumps(params)) > NOTICE_BYTES:
            queue.count_dropped(1)
        else:
            queue.put(Notice(connection_id=key.connection_id, method=method, params=params))

    async def _send(self, key: SessionKey, queue: NoticeQueue) -> None:
        pipeline: TickPipeline = tick_pipeline()
        try:
            while True:
                found, dropped = queue.drain()
                if not found and not dropped:
                    return
                message = _message(key.spec, found, dropped)
                pipeline.send("PUBLISH", _channel(key.spec), message)
                await asyncio.sleep(PERIOD)
        finally:
            del self._waiting[key]


def _channel(owner: Owner) -> str:
    return hub_redis.key("notices", owner.tenant_id.hex, owner.member_id.hex)


def _message(owner: Owner, notices: Sequence[Notice], dropped: int) -> bytes:
    told = [[each.connection_id.hex, each.method, each.params] for each in notices]
    whose = f"{owner.tenant_id.hex}{owner.member_id.hex}"
    return json.dumps([whose, told, dropped]).encode()


# --- web side -------------------------------------------------------------------------------------


class Listener:
    """One listener's notices: bounded and coalesced however slowly they are taken."""

    def __init__(self, connection_ids: Collection[uuid.UUID] | None) -> None:
        self._connection_ids = connection_ids
        self._queue = NoticeQueue()
        self._is_ready = asyncio.Event()

    async def take(self) -> tuple[Sequence[Notice], int]:
        """Wait for notices; return them in order, and how many were lost before."""
        await self._is_ready.wait()
        self._is_ready.clear()
        return self._queue.drain()

    def put(self, notices: Iterable[Notice], dropped: int = 0) -> None:
        for notice in notices:
            if self._wants(notice.connection_id):
                self._queue.put(notice)
        self._queue.count_dropped(dropped)
        if len(self._queue):
            self._is_ready.set()

    def _wants(self, connection_id: uuid.UUID) -> bool:
        return (
            self._connection_ids is None
            or connection_id == NOBODY
            or connection_id in self._connection_ids
        )


class Notices:
    """One per event loop; `current` returns the running loop's."""

    def __init__(self) -> None:
        self._listeners: defaultdict[str, set[Listener]] = defaultdict(set)
        self._subscription = Subscription(
            hub_redis.key("notices"), on_message=self._on_message, on_gap=self._on_gap
        )

    @asynccontextmanager
    async def listen(
        self, owner: Owner, connection_ids: Collection[uuid.UUID] | None = None
    ) -> AsyncIterator[Listener]:
        """Hear a member's notices until the block ends; None: of all connections, later ones too.

        Raises LimitError, UnavailableError.
        """
        whose = f"{owner.tenant_id.hex}{owner.member_id.hex}"
        if len(self._listeners.get(whose, ())) >= MOST_LISTENERS:
            raise LimitError("Too many streams of this member are open.", retry_after=10.0)
        listener = Listener(connection_ids)
        self._listeners[whose].add(listener)
        try:
            await self._subscription.add(_channel(owner))
            yield listener
        finally:
            self._listeners[whose].discard(listener)
            if not self._listeners[whose]:
                del self._listeners[whose]
                await self._subscription.remove(_channel(owner))

    async def aclose(self) -> None:
        await self._subscription.aclose()

    def _on_message(self, data: bytes) -> None:
        try:
            whose, told, dropped = json.loads(data)
            found = [
                Notice(connection_id=uuid.UUID(hex=each), method=method, params=params)
                for each, method, params in told
            ]
        except (ValueError, TypeError):
            logger.warning("notices unreadable length=%d", len(data))
            return
        for listener in self._listeners.get(whose, ()):
            listener.put(found, dropped)

    def _on_gap(self) -> None:
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.put([Notice(connection_id=NOBODY, method=LOST)])


current: PerLoop[Notices] = PerLoop(Notices)

__all__ = [
    "CONNECTION",
    "LOST",
    "MESSAGE",
    "NOBODY",
    "TASK_STATUS",
    "Listener",
    "Notice",
    "Notices",
    "Outbox",
    "after_commit",
    "current",
    "is_notice",
    "lists_changed",
]
