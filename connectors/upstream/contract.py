"""What a session promises to its host and what it expects of it; no transport knows more."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from connectors.server_spec import Era, StoredSession, Transport
from connectors.upstream.http_layer import HttpSeen
from mcphub.core.clock import Deadline
from mcphub.core.errors import HubError
from mcphub.core.types import JSONObject

Direction = Literal["sent", "received"]

OF_CONNECTION = frozenset(
    {
        "notifications/cancelled",
        "notifications/elicitation/complete",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/resources/updated",
        "notifications/tools/list_changed",
    }
)
"""Notifications that are not about a call, whichever stream they come on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What the server said of itself when the session was opened."""

    era: Era
    transport: Transport
    protocol_version: str
    server_info: JSONObject
    capabilities: JSONObject
    instructions: str
    is_era_certain: bool = True
    """False when the era probe got no answer: not to be remembered as a hint."""
    stored: StoredSession | None = field(default=None, repr=False)
    """With which another holder can go on with this session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenMessage:
    """One JSON-RPC message of a session, or bytes that should have been one.

    `synthetic` messages stand for failures that had no message on the wire. `message` is shared:
    it must not be changed.
    """

    direction: Direction
    message: JSONObject | None
    size: int
    at: datetime
    call_id: uuid.UUID | None = None
    attempt: int = 0
    synthetic: bool = False
    raw: bytes | None = None
    duration_ms: float | None = None
    http: HttpSeen | None = None
    """Of an answer, or of what stands in for one: the exchange that carried it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPosition:
    """Where the rest of an answer can be asked for, by another holder of the session too."""

    session: str
    """A digest of the session id, which is a secret."""
    request: int
    event: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamRequest:
    """One request to make; progress extends `idle_timeout` but never `deadline`."""

    method: str
    params: JSONObject
    deadline: Deadline
    call_id: uuid.UUID | None = None
    attempt: int = 0
    client_capabilities: JSONObject | None = None
    """What this request declares in the per-request era. None: what the session declares."""
    log_level: str = ""
    """From which level on its client wants to hear of it, where the era has no such parameter."""
    on_progress: Callable[[JSONObject], None] | None = None
    on_notification: Callable[[str, JSONObject], None] | None = None
    """Told what the server says during this request, but for what OF_CONNECTION names."""
    on_position: Callable[[StreamPosition], None] | None = None
    """Told when the answer's stream can be resumed from a later point than before."""
    resume_at: StreamPosition | None = None
    """Set: it was sent before, so only the rest of its answer is asked for."""
    is_left: Callable[[], bool] = lambda: False
    """Whether another holder waits for the answer from now on: giving up is no cancelling then."""
    idle_timeout: float | None = None


class SessionListener(Protocol):
    """The host's side of a session; all but `on_request` are called on the loop, never block."""

    client_capabilities: JSONObject
    """What is declared to the server: only what `on_request` can answer."""

    def on_message(self, seen: SeenMessage) -> None:
        """See every message, both ways, in order."""

    def on_notification(
        self, method: str, params: JSONObject, asker: UpstreamRequest | None
    ) -> None:
        """Get a notification; `asker` is the call in whose course it came, None: unknown."""

    def on_step(self, kind: str, detail: JSONObject) -> None:
        """Get a line of the timeline; `detail` holds no upstream text."""

    def on_lost(self, error: HubError) -> None:
        """Learn that the session ended by itself; called at most once."""

    async def on_request(
        self, method: str, params: JSONObject, asker: UpstreamRequest | None
    ) -> JSONObject:
        """Answer a request of the server. Raises ProtocolError to refuse it.

        `asker` is the call in whose course it came, whose clock stands still; None: unknown.
        """


class Session(ABC):
    """One open session with one server; requests are independent of each other."""

    opened: Opened
    is_handed_over: bool = False
    """Whether another holder goes on with it: closing leaves it open at the server."""

    @abstractmethod
    async def request(self, request: UpstreamRequest) -> JSONObject:
        """Return the result with every field kept.

        Raises ProtocolError (the peer's error), AuthorizationNeededError, UpstreamError with
        `was_sent` and `was_answered`, UpstreamTimeoutError. Cancelling the task cancels upstream.
        """

    @abstractmethod
    async def notify(self, method: str, params: JSONObject) -> None:
        """Send a notification. Raises UpstreamError, AuthorizationNeededError."""

    @abstractmethod
    async def close(self) -> None:
        """End the session within two seconds; never raises for what the server does."""

    def wish(self, resources: Collection[str], tasks: Collection[str]) -> None:
        """Hear of changes of these from now on, where the era has no request for that."""
        del resources, tasks  # only listen streams over HTTP have such a filter

    def learn_tools(self, tools: list[JSONObject]) -> None:
        """Take over tool definitions from the catalog, for headers that mirror arguments."""
        del tools  # only Streamable HTTP has such headers
