"""`/metrics`: off by default, for whoever has the token, numbers of no tenant."""

from __future__ import annotations

import re

import pytest
from django.test import AsyncClient
from pytest_django import Settings
from redis import Redis

from connectors import queue
from connectors.queue import WorkerLoad, workers
from tests.connectors import server_factories
from tests.connectors.call_stack import closing_loop_objects
from tests.world import World

pytestmark = pytest.mark.django_db(transaction=True)

TOKEN = "metrics-token-of-the-test"
SAMPLE = re.compile(r'(mcphub_[a-z_]+)(?:\{([a-z]+)="([^"]*)"\})? (-?[0-9.e+-]+)')


async def read(client: AsyncClient, token: str = TOKEN) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    answer = await client.get("/metrics", headers=headers)
    return answer.status_code, answer.content.decode()


async def test_it_is_off_until_a_token_is_set(async_client: AsyncClient) -> None:
    assert (await read(async_client))[0] == 404
    assert (await read(async_client, ""))[0] == 404


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1]])
async def test_it_is_for_whoever_has_the_token(
    async_client: AsyncClient, settings: Settings, token: str
) -> None:
    settings.METRICS_TOKEN = TOKEN
    assert (await read(async_client, token)) == (401, "")


async def test_it_counts_what_is_open_and_names_nobody(
    async_client: AsyncClient, settings: Settings, world: World, redis: Redis
) -> None:
    settings.METRICS_TOKEN = TOKEN
    workers.forget_known()

    async with closing_loop_objects():
        await queue.announce_worker(WorkerLoad(worker="w1-0a", calls=3, sessions=2, tasks=9))
        status, text = await read(async_client)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    found = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}

    assert status == 200
    assert [line for line in lines if not SAMPLE.fullmatch(line)] == []
    assert found['mcphub_up{part="database"}'] == 1
    assert found['mcphub_up{part="beat"}'] == 0
    assert found['mcphub_worker_tasks{worker="w1-0a"}'] == 9
    assert found['mcphub_open_calls{status="queued"}'] == 0
    assert text.count("# TYPE mcphub_worker_executed_total counter") == 1
    assert world.alice.tenant.slug not in text
    assert world.alice.tenant.pk.hex not in text


async def test_connections_are_counted_by_state(
    async_client: AsyncClient, settings: Settings, connected: None
) -> None:
    settings.METRICS_TOKEN = TOKEN
    async with closing_loop_objects():
        _, text = await read(async_client)
    assert 'mcphub_connections{state="connected"} 2\n' in text
    assert 'mcphub_connections{state="error"} 0\n' in text


@pytest.fixture
def connected(world: World, redis: Redis) -> None:
    server_factories.make_connected(world.alice)
    server_factories.make_connected(world.charlie)
