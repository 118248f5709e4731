"""One principal's live events for one client, whatever carries them: WebSocket or SSE."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from mcphub.core.errors import FieldProblem, InvalidInputError, NotPermittedError
from mcphub.core.event_feed import Listener, feed
from mcphub.core.event_link import Event
from mcphub.core.event_stream import EventGroup
from mcphub.core.types import JSONValue
from tenants.principal import Principal
from tracing.topics import Subscription, is_visible, subscription_for

POSITION = re.compile(r"[0-9]{1,20}")
LARGEST = 1 << 53


class LiveEvents:
    """A listener with a subscription; `messages()` is what to send next."""

    def __init__(self, principal: Principal, listener: Listener) -> None:
        self._principal = principal
        self._listener = listener
        self._subscription = Subscription()
        self._visible: dict[str, bool] = {}

    @classmethod
    async def open(cls, principal: Principal) -> LiveEvents:
        """Begin to listen, to nothing yet. Raises UnavailableError without Redis."""
        return cls(principal, await feed().listen(EventGroup.of(principal)))

    async def close(self) -> None:
        await feed().leave(self._listener)

    @property
    def position(self) -> int:
        """Where this client goes on: it has, or wants, nothing up to this number."""
        return self._listener.position

    async def subscribe(self, topics: Sequence[str], since: int | None) -> None:
        """Replace the subscription; raises as `subscription_for`. Then `since` is replayed."""
        subscription = await subscription_for(self._principal, topics)
        await self._listener.trace(is_wanted=subscription.wants_traces)
        self._subscription = subscription
        self._listener.accepts = subscription.accepts
        if since is not None:
            self._listener.replay(since)

    async def principal_changed(self, principal: Principal) -> None:
        """Check the topics again with the scopes of now. Raises NotPermittedError."""
        self._principal = principal
        self._visible.clear()
        try:
            await self.subscribe(self._subscription.topics, None)
        except NotPermittedError:
            self._listener.accepts = Subscription().accepts
            raise

    async def messages(self) -> list[tuple[int, str]]:
        """Wait for what is to be sent next: numbers and envelopes, in order."""
        while True:
            batch = await self._listener.take()
            if batch.resync_at is not None:
                return [(batch.resync_at, envelope("resync", seq=batch.resync_at))]
            wanted = [event for event in batch.events if await self._may_see(event)]
            if wanted:
                return [(event.seq, event.text) for event in wanted]

    async def _may_see(self, event: Event) -> bool:
        """Check the server of an event for principals that are limited to some connectors."""
        if self._principal.allowed_connectors is None:
            return True
        server = event.route.server
        if server not in self._visible:
            self._visible[server] = await is_visible("server", self._principal, server)
        return self._visible[server]


def envelope(kind: str, **fields: JSONValue) -> str:
    """Return a message that is no event of the stream: hello, subscribed, resync, pong."""
    return json.dumps({"v": 1, "type": kind, **fields}, separators=(",", ":"))


def read_since(value: object) -> int | None:
    """Return a position that a client gave. Raises InvalidInputError for what is no position."""
    if value is None or value == "":
        return None
    text = str(value)
    if not POSITION.fullmatch(text):
        problem = FieldProblem(path="/since", message="A whole number from 0, the `seq` seen last.")
        raise InvalidInputError(problems=[problem])
    return min(int(text), LARGEST)
