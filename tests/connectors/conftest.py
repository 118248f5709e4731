"""Fixtures for calls: a connected server of Alice's, and a stack that executes calls of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from redis import Redis

from connectors import selectors
from connectors.api import threads
from connectors.models import Connection
from connectors.queue import workers
from connectors.services import tool_calls
from mcphub import asgi
from mcphub.core.offload import DatabaseThreads
from tests.connectors import server_factories
from tests.connectors.call_stack import Stack, closing_loop_objects, view_of
from tests.connectors.oauth_desk import oauth_desk  # noqa: F401  (a fixture)
from tests.connectors.rest import rest  # noqa: F401  (a fixture)
from tests.world import World


@pytest.fixture
def ledger_threads(transactional_db: None) -> Iterator[None]:
    """End the threads of the call services after the test; they see committed rows only."""
    yield
    tool_calls.close()


@pytest.fixture
def database(transactional_db: None) -> Iterator[DatabaseThreads]:
    """A thread for a test's own queries."""
    threads = DatabaseThreads(name="test", threads=1)
    yield threads
    threads.close()


@pytest.fixture
def connection(world: World, ledger_threads: None) -> Connection:
    return server_factories.make_connected(world.alice, "linear", held_by="w1")


@pytest.fixture
async def stack(world: World, connection: Connection, redis: Redis) -> AsyncIterator[Stack]:
    """A stack without a worker yet: `await stack.start_worker()`."""
    workers.forget_known()
    async with closing_loop_objects():
        stack = Stack(world.alice.principal, view_of(connection))
        try:
            yield stack
        finally:
            await stack.aclose()


@pytest.fixture
async def web(world: World, stack: Stack) -> AsyncIterator[httpx.AsyncClient]:
    """Alice's client of the ASGI application, in the loop that the worker runs in."""
    selectors.targets.clear()
    await stack.start_worker()
    application: Any = asgi.application
    transport = httpx.ASGITransport(app=application)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://127.0.0.1:8000", headers=dict(world.alice.headers)
    ) as client:
        yield client
    await asyncio.to_thread(threads.close)
    await asyncio.to_thread(selectors.targets.close)
