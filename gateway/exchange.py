"""Exchange: one request of a downstream client, and what can be said to this client meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from connectors.server_spec import Era
from connectors.upstream.jsonrpc import notification
from gateway import mailbox
from gateway.endpoint import Endpoint
from gateway.sessions import Session
from gateway.wire import Reply, Request
from mcphub.core.errors import HubError, UpstreamTimeoutError
from mcphub.core.types import JSONObject
from tenants.principal import Principal

MOST_WAITING = 256
"""Notifications of one request that its client has not taken yet; what is more is dropped."""


class ClientCannotError(HubError):
    """The client has no stream on which it could be asked."""

    code = "client_cannot_be_asked"
    status = 409
    title = "The client cannot be asked"


class Channel(Protocol):
    """Where messages to the client go: the stream of its POST, or its one stream (HTTP+SSE)."""

    @property
    def can_stream(self) -> bool: ...

    async def event(self, message: JSONObject) -> None: ...


@dataclass(kw_only=True, eq=False)
class Exchange:
    """What handlers of methods get; `session` is set in the handshake era only."""

    principal: Principal
    endpoint: Endpoint
    era: Era
    version: str
    request: Request
    channel: Channel
    capabilities: JSONObject = field(default_factory=dict)
    client_info: JSONObject = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of the request, in the per-request era, where they repeat parts of the body."""
    session: Session | None = None
    is_cancelled: bool = False
    """The client does not want the answer any more, as opposed to: has lost its connection."""
    response_headers: dict[str, str] = field(default_factory=dict)
    _waiting: asyncio.Queue[JSONObject] = field(
        default_factory=lambda: asyncio.Queue(MOST_WAITING), repr=False
    )

    @property
    def params(self) -> JSONObject:
        return self.request.params

    @property
    def is_modern(self) -> bool:
        return self.era is Era.MODERN

    @property
    def progress_token(self) -> str | int | None:
        """The token under which this client wants to hear of progress."""
        token = self.request.meta.get("progressToken")
        return token if isinstance(token, str | int) and not isinstance(token, bool) else None

    def adopt(self, session: Session) -> None:
        """Go on with a session that has changed, such as by `initialize`."""
        self.session = session
        self.version = session.version
        self.capabilities = session.capabilities
        self.client_info = session.client_info

    async def notify(self, method: str, params: JSONObject) -> None:
        """Tell the client something that belongs to this request."""
        await self.channel.event(notification(method, params))

    def offer(self, method: str, params: JSONObject) -> None:
        """As `notify`, from callbacks: in order, bounded, never waiting."""
        if not self._waiting.full():
            self._waiting.put_nowait(notification(method, params))

    @asynccontextmanager
    async def telling(self) -> AsyncIterator[None]:
        """Send what is offered until the block ends, and then what is left."""
        pump = asyncio.get_running_loop().create_task(self._pump())
        try:
            yield
        except asyncio.CancelledError:
            raise
        except Exception:
            await self._waiting.join()
            raise
        else:
            await self._waiting.join()
        finally:
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)

    async def _pump(self) -> None:
        while True:
            message = await self._waiting.get()
            try:
                await self.channel.event(message)
            finally:
                self._waiting.task_done()

    async def ask(self, method: str, params: JSONObject, seconds: float) -> Reply:
        """Ask a client of the handshake era and return what it answers, an error included.

        Raises ClientCannotError, UpstreamTimeoutError, UnavailableError.
        """
        if self.is_modern or self.session is None or not self.channel.can_stream:
            raise ClientCannotError
        box = mailbox.current()
        await box.start()
        with box.question(self.session.id) as (question_id, answered):
            asked: JSONObject = {"jsonrpc": "2.0", "id": question_id, "method": method}
            await self.channel.event({**asked, "params": params} if params else asked)
            try:
                async with asyncio.timeout(seconds):
                    return await answered
            except TimeoutError as exc:
                await self._take_back(question_id, "timeout")
                raise UpstreamTimeoutError("The client did not answer in time.") from exc
            except asyncio.CancelledError:
                await self._take_back(question_id, "no longer needed")
                raise

    async def _take_back(self, question_id: str, reason: str) -> None:
        await self.notify("notifications/cancelled", {"requestId": question_id, "reason": reason})
