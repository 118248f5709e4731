"""Fixtures of the trace's tests: messages of sessions that nobody has to open."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from redis import Redis

from mcphub.core import clock
from tests.world import Person, World
from tracing import recorder
from tracing.models import Direction
from tracing.recorder import TracedSession, TraceRecord

Recorded = Callable[..., None]


@pytest.fixture(autouse=True)
def _with_redis(redis: Redis) -> None:
    """Start each test with an empty Redis."""


@pytest.fixture
def recording() -> Iterator[None]:
    """End the recorder's thread, which has a database connection, with the test."""
    yield
    assert recorder.drain(10)


def session_of(person: Person, server: str = "demo", **more: Any) -> TracedSession:
    return TracedSession(
        tenant_id=person.tenant.id,
        member_id=person.member.id,
        connection_id=uuid.uuid4(),
        server=server,
        **more,
    )


def record(session: TracedSession, message: Any, **more: Any) -> None:
    recorder.record(
        TraceRecord(
            session=session,
            direction=more.pop("direction", Direction.RECEIVED),
            message=message,
            size=more.pop("size", 100),
            at=more.pop("at", None) or clock.now(),
            **more,
        )
    )


class Exchange:
    """Records requests and their answers of one session."""

    def __init__(self, session: TracedSession) -> None:
        self.session = session
        self._ids = itertools.count(1)

    def ask(self, method: str = "tools/call", **params: Any) -> int:
        rpc_id = next(self._ids)
        message = {"jsonrpc": "2.0", "id": rpc_id, "method": method, "params": params}
        record(self.session, message, direction=Direction.SENT, method=method)
        return rpc_id

    def answer(self, rpc_id: int, method: str = "tools/call", **body: Any) -> None:
        message = {"jsonrpc": "2.0", "id": rpc_id, **(body or {"result": {"content": []}})}
        record(self.session, message, method=method, duration_ms=1.5)

    def notify(self, method: str = "notifications/message", **params: Any) -> None:
        record(self.session, {"jsonrpc": "2.0", "method": method, "params": params})


@pytest.fixture
def exchange(world: World, recording: None) -> Exchange:
    """Bob's session with the server `demo`."""
    return Exchange(session_of(world.bob))
