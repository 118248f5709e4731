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
from dataclasses import dataclass
from functools import partial

from django.db import transaction
from redis.client import PubSub
from redis.exceptions import RedisError

from mcphub.core import redis
from tenants.principal import Principal
from tenants.principal_cache import PrincipalCache

logger = logging.getLogger(__name__)

EVERYBODY = "*"
RETRY_SECONDS = 1.0
POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What changed: something of a tenant (None: of anybody), or one credential that ended."""

    tenant_id: uuid.UUID | None = None
    credential: str = ""
    """As in `Principal.credential`; it cannot come back."""

    def concerns(self, principal: Principal) -> bool:
        """Whether the principal has to be looked up again."""
        if self.credential:
            return principal.credential == self.credential
        return self.tenant_id in {None, principal.tenant_id}


Listener = Callable[[Change], None]

principals = PrincipalCache()


def announce(change: Change) -> None:
    """Drop what is cached of it: here now, in every process once the change is committed."""
    hub.notify(change)
    transaction.on_commit(partial(_publish, change))


def is_listening() -> bool:
    """Whether cached principals may be used; starts listening in a process that does not yet."""
    return hub.is_listening()


def subscribe(listener: Listener) -> Callable[[], None]:
    """Call `listener` (in any thread) on each announcement; returns the way to stop that."""
    hub.is_listening()
    hub.listeners.add(listener)
    return partial(hub.listeners.discard, listener)


def _publish(change: Change) -> None:
    hub.notify(change)
    tenant = change.tenant_id.hex if change.tenant_id else EVERYBODY
    try:
        redis.shared().publish(_channel(), f"{tenant} {change.credential}")
    except RedisError as exc:
        logger.warning("announcement not published error=%s", type(exc).__name__)


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

    def notify(self, change: Change) -> None:
        principals.forget(change.concerns)
        for listener in tuple(self.listeners):
            listener(change)

    def _run(self) -> None:
        pause = threading.Event()
        try:
            while True:
                try:
                    self._listen()
                except (RedisError, OSError) as exc:
                    logger.debug("principals not cached error=%s", type(exc).__name__)
                self._is_subscribed = False
                self.notify(Change())
                pause.wait(RETRY_SECONDS)
        finally:  # a listener has failed: nothing is trusted until the next question starts anew
            self._is_subscribed = False
            self._pid = 0

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
                    principals.forget(Change().concerns)
                    self._is_subscribed = True
                elif message["type"] == "message":
                    self.notify(_read(message["data"]))
        finally:
            client.close()


def _read(message: bytes) -> Change:
    tenant, _, credential = message.decode("ascii", "replace").partition(" ")
    try:
        return Change(tenant_id=uuid.UUID(tenant), credential=credential)
    except ValueError:
        return Change(credential=credential)


hub = _Hub()
