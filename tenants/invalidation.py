"""Tells every process at once that a credential, member or tenant changed.

`announce` drops cached principals here, and after the commit in all processes over one Redis
channel. A process trusts its cache only while it is subscribed; without Redis every request is
looked up in the database, so a revocation never depends on Redis.
"""

from __future__ import annotations

import logging
import os
import threading
import uuid
from collections.abc import Callable
from functools import cache, partial

from django.db import transaction
from redis import Redis
from redis.client import PubSub
from redis.exceptions import RedisError

from mcphub.core import redis
from tenants.principal_cache import PrincipalCache

logger = logging.getLogger(__name__)

EVERYBODY = "*"
RETRY_SECONDS = 1.0
POLL_SECONDS = 1.0

Listener = Callable[[uuid.UUID | None], None]

principals = PrincipalCache()


def announce(tenant_id: uuid.UUID | None) -> None:
    """Say that something of this tenant (None: of anybody) changed; elsewhere on commit."""
    hub.notify(tenant_id)
    transaction.on_commit(partial(_publish, tenant_id))


def is_listening() -> bool:
    """Whether cached principals may be used; starts listening in a process that does not yet."""
    return hub.is_listening()


def subscribe(listener: Listener) -> Callable[[], None]:
    """Call `listener` (in any thread) on each announcement; returns the way to stop that."""
    hub.is_listening()
    hub.listeners.add(listener)
    return partial(hub.listeners.discard, listener)


def _publish(tenant_id: uuid.UUID | None) -> None:
    hub.notify(tenant_id)
    try:
        _publisher().publish(_channel(), tenant_id.hex if tenant_id else EVERYBODY)
    except RedisError as exc:
        logger.warning("announcement not published error=%s", type(exc).__name__)


@cache
def _publisher() -> Redis:
    return redis.open_sync(read_seconds=1.0)


def _channel() -> str:
    return redis.key("principals-changed")


class _Hub:
    """The subscription of this process: one daemon thread from the first use on."""

    def __init__(self) -> None:
        self.listeners: set[Listener] = set()
        self._pid = 0
        self._is_subscribed = False
        self._lock = threading.Lock()

    def is_listening(self) -> bool:
        if self._pid != os.getpid():
            with self._lock:
                if self._pid != os.getpid():
                    self._pid = os.getpid()
                    self._is_subscribed = False
                    threading.Thread(target=self._run, name="principals", daemon=True).start()
        return self._is_subscribed

    def notify(self, tenant_id: uuid.UUID | None) -> None:
        principals.forget(tenant_id)
        for listener in tuple(self.listeners):
            listener(tenant_id)

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            try:
                self._listen()
            except (RedisError, OSError) as exc:
                logger.info("principals not cached error=%s", type(exc).__name__)
            self._is_subscribed = False
            self.notify(None)
            pause.wait(RETRY_SECONDS)

    def _listen(self) -> None:
        client = redis.open_sync(read_seconds=POLL_SECONDS * 3)
        try:
            subscription: PubSub = client.pubsub()  # type: ignore[no-untyped-call]  # of redis
            subscription.subscribe(_channel())
            while True:
                message = subscription.get_message(timeout=POLL_SECONDS)
                if message is None:
                    continue
                if message["type"] == "subscribe":
                    principals.forget(None)
                    self._is_subscribed = True
                elif message["type"] == "message":
                    self.notify(_tenant_of(message["data"]))
        finally:
            client.close()


def _tenant_of(text: bytes) -> uuid.UUID | None:
    try:
        return uuid.UUID(text.decode("ascii", "replace"))
    except ValueError:
        return None


hub = _Hub()
