"""Fixtures: a strict authorization server, means of a loop, and Alice's sign-in at it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from mcphub.core.egress import EgressClient, EgressPolicy
from mcphub.core.offload import DatabaseThreads
from oauth.means import Means
from tests.fakes.auth_server import AuthServer
from tests.oauth.people import Desk
from tests.world import World


@pytest.fixture
def server() -> Iterator[AuthServer]:
    with AuthServer() as running:
        yield running


@pytest.fixture
async def means(transactional_db: None) -> AsyncIterator[Means]:
    made = Means(
        EgressClient(EgressPolicy(allow_loopback=True)), DatabaseThreads(name="test", threads=4)
    )
    yield made
    await made.http.aclose()
    made.database.close()


@pytest.fixture
def desk(server: AuthServer, means: Means, world: World) -> Desk:
    """Alice at her desk, with a connection to the server."""
    return Desk(server=server, means=means, person=world.alice)
