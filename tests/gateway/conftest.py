"""Fixtures of the gateway: a hub with one web process, and one with two."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from redis import Redis

from connectors import selectors
from connectors.api import threads
from connectors.queue import workers
from connectors.services import tool_calls
from tenants.cors import allowed_origins
from tests.gateway.hub import Hub, running_hub
from tests.world import World


@pytest.fixture
def hub(world: World, quiet: None) -> Iterator[Hub]:
    with running_hub(world.alice) as found:
        yield found


@pytest.fixture
def two(world: World, quiet: None) -> Iterator[Hub]:
    """Two web processes, and a load balancer's freedom between them."""
    with running_hub(world.alice, processes=2) as found:
        yield found


@pytest.fixture
def quiet(transactional_db: None, redis: Redis) -> Iterator[None]:
    """Forget what the process keeps between tests, and end its threads after one."""
    workers.forget_known()
    selectors.targets.clear()
    allowed_origins.forget()
    yield
    tool_calls.close()
    threads.close()
    selectors.targets.close()
