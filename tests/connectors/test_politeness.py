"""Politeness: who was told to wait is left alone by everybody, and openings take turns."""

from __future__ import annotations

import asyncio
import time

import pytest
from redis import Redis

from connectors.queue import tick_pipeline
from connectors.services import politeness
from connectors.services.politeness import AuthorityBusyError
from mcphub.core import redis as hub_redis
from mcphub.core.errors import HubError, UnavailableError, UpstreamError
from tests.connectors.call_stack import closing_loop_objects

URL = "https://user:secret@Busy.example:8443/mcp?key=1"
AUTHORITY = "busy.example:8443"


def held_ms(redis: Redis, authority: str = AUTHORITY) -> int:
    found = redis.pttl(hub_redis.key("polite", "hold", authority))
    assert isinstance(found, int)
    return found


def refusal(seconds: float | None) -> UpstreamError:
    return UpstreamError("Come back later.", was_sent=True, retry_after=seconds)


async def fail(error: HubError, url: str = URL) -> None:
    with pytest.raises(type(error)):
        async with politeness.opening(url):
            raise error
    await tick_pipeline().flush()


async def test_a_server_that_asks_for_a_pause_is_not_opened_by_anybody_before(
    redis: Redis,
) -> None:
    async with closing_loop_objects():
        await fail(refusal(30.0))
        with pytest.raises(AuthorityBusyError) as caught:
            async with politeness.opening("https://busy.example:8443/other"):
                raise AssertionError
    assert caught.value.code == "upstream_busy"
    assert 29 < (caught.value.retry_after or 0) <= 30
    assert 29_000 < held_ms(redis) <= 30_000


async def test_a_pause_is_of_its_authority_alone(redis: Redis) -> None:
    async with closing_loop_objects():
        await fail(refusal(30.0))
        for url in ("https://busy.example/mcp", "https://other.example:8443/mcp"):
            async with asyncio.timeout(5), politeness.opening(url):
                pass


async def test_a_short_pause_is_borne_in_silence(redis: Redis) -> None:
    async with closing_loop_objects():
        await fail(refusal(0.3))
        started = time.monotonic()
        async with asyncio.timeout(5), politeness.opening(URL):
            assert time.monotonic() - started > 0.2


async def test_a_server_cannot_ask_for_longer_than_a_minute(redis: Redis) -> None:
    async with closing_loop_objects():
        await fail(refusal(86_400.0))
    assert 50_000 < held_ms(redis) <= politeness.LONGEST_HOLD * 1000


@pytest.mark.parametrize(
    "error", [refusal(None), UnavailableError("Redis is away.", retry_after=9.0)]
)
async def test_what_asks_for_no_pause_of_the_server_causes_none(
    redis: Redis, error: HubError
) -> None:
    async with closing_loop_objects():
        await fail(error)
    assert held_ms(redis) < 0


async def test_openings_beyond_those_of_a_second_wait_for_their_turn(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django.conf.settings.AUTHORITY_OPENINGS", 10)
    started = time.monotonic()

    async def one() -> float:
        async with politeness.opening(URL):
            return time.monotonic() - started

    async with closing_loop_objects(), asyncio.timeout(10):
        took = sorted(await asyncio.gather(*(one() for _ in range(16))))
    assert took[15] >= 0.4  # the first ten at once, then one each tenth of a second


async def test_without_an_authority_nobody_waits(redis: Redis) -> None:
    async with closing_loop_objects():
        await fail(refusal(30.0), "")  # a local program
        async with asyncio.timeout(5), politeness.opening(""):
            pass
