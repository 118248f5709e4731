"""What the tests of the upstream layer share: a listener that remembers, specs, one-line calls."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from connectors.server_spec import ServerSpec
from connectors.upstream.session import (
    SeenMessage,
    Session,
    UpstreamRequest,
    open_session,
)
from mcphub.core.clock import Deadline
from mcphub.core.crypto import Secret
from mcphub.core.egress import EgressClient, EgressPolicy
from mcphub.core.errors import HubError, ProtocolError
from mcphub.core.types import JSONObject
from tests.fakes import raw_server


class Listener:
    """A SessionListener that keeps everything; `until` waits for something to be true."""

    def __init__(self, **capabilities: JSONObject) -> None:
        self.client_capabilities: JSONObject = dict(capabilities)
        self.seen: list[SeenMessage] = []
        self.notifications: list[tuple[str, JSONObject, str | None]] = []
        self.steps: list[tuple[str, JSONObject]] = []
        self.lost: list[HubError] = []
        self.asked: list[tuple[str, JSONObject, str | None]] = []
        self.answer: JSONObject = {}
        self._changed = asyncio.Event()

    def on_message(self, seen: SeenMessage) -> None:
        self.seen.append(seen)
        self._changed.set()

    def on_notification(
        self, method: str, params: JSONObject, asker: UpstreamRequest | None
    ) -> None:
        self.notifications.append((method, params, asker.method if asker else None))
        self._changed.set()

    def on_step(self, kind: str, detail: JSONObject) -> None:
        self.steps.append((kind, detail))
        self._changed.set()

    def on_lost(self, error: HubError) -> None:
        self.lost.append(error)
        self._changed.set()

    async def on_request(
        self, method: str, params: JSONObject, asker: UpstreamRequest | None
    ) -> JSONObject:
        self.asked.append((method, params, asker.method if asker else None))
        if not self.answer:
            raise ProtocolError(rpc_code=-32000, rpc_message="declined")
        return self.answer

    async def until(self, condition: Callable[[], bool], seconds: float = 5.0) -> None:
        async with asyncio.timeout(seconds):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.steps]


def spec_for(url: str, **fields: Any) -> ServerSpec:
    return ServerSpec(
        connection_id=uuid.uuid4(),
        tenant_id=uuid.uuid4(),
        member_id=uuid.uuid4(),
        slug="demo",
        url=url,
        **{"connect_timeout": 5.0, **fields},
    )


def bearer(token: str) -> dict[str, Secret]:
    return {"Authorization": Secret(f"Bearer {token}")}


def new_http() -> EgressClient:
    return EgressClient(EgressPolicy(allow_loopback=True))


def call_of(tool: str, seconds: float = 5.0, /, **arguments: Any) -> UpstreamRequest:
    return UpstreamRequest(
        method="tools/call",
        params={"name": tool, "arguments": arguments},
        deadline=Deadline.after(seconds),
    )


def ask(method: str, params: JSONObject | None = None, seconds: float = 5.0) -> UpstreamRequest:
    return UpstreamRequest(method=method, params=params or {}, deadline=Deadline.after(seconds))


def text_of(result: JSONObject) -> str:
    content: Any = result["content"]
    return str(content[0]["text"])


@asynccontextmanager
async def opened(
    url: str, listener: Listener | None = None, **fields: Any
) -> AsyncIterator[Session]:
    """Open a session and close it, and its connections, at the end."""
    http = new_http()
    try:
        session = await open_session(
            spec_for(url, **fields), http=http, listener=listener or Listener()
        )
        try:
            yield session
        finally:
            await session.close()
    finally:
        await http.aclose()


@asynccontextmanager
async def talking_to(
    server: raw_server.RawServer, listener: Listener | None = None, **fields: Any
) -> AsyncIterator[Session]:
    """Serve a raw server and open a session with it."""
    async with raw_server.serving(server), opened(server.url, listener, **fields) as session:
        yield session


async def failure_of(session: Session, request: UpstreamRequest) -> HubError:
    """Return the error that a request ends with."""
    try:
        result = await session.request(request)
    except HubError as exc:
        return exc
    raise AssertionError(f"no error but {result}")


async def connect_failure(url: str, listener: Listener | None = None, **fields: Any) -> HubError:
    """Return the error that opening a session ends with."""
    try:
        async with opened(url, listener, **fields) as session:
            found = session.opened
    except HubError as exc:
        return exc
    raise AssertionError(f"no error but {found}")
