"""Politeness towards an authority (host and port), shared by all workers through Redis.

Who was told to come back later is not asked again before, by nobody; and no authority gets more
than so many openings a second, however many connections want one. Without Redis everything passes.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from django.conf import settings

from connectors.queue import tick_pipeline
from mcphub.core import redis as hub_redis
from mcphub.core.errors import HubError, LimitError, UnavailableError

PATIENCE_SECONDS = 10.0
"""A wait that is borne in silence; a longer one is shown as a failed attempt."""
LONGEST_HOLD = 60.0
LONGEST_TURN = 30.0

# KEYS: hold, turn   ARGV: openings a second. Answers {ms of the hold, ms until its turn}.
_ENTER = """
local held = redis.call('PTTL', KEYS[1])
if held > 0 then return {held, 0} end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local at = math.max(tonumber(redis.call('GET', KEYS[2]) or now), now)
redis.call('SET', KEYS[2], at + 1000 / tonumber(ARGV[1]), 'PX', 120000)
return {0, math.max(0, math.ceil(at - now - 1000))}
"""


class AuthorityBusyError(LimitError):
    """The server asked for a pause that is not over."""

    code = "upstream_busy"
    title = "The server asked to be left alone for a while"


@asynccontextmanager
async def opening(url: str) -> AsyncIterator[None]:
    """Open a session inside: waits for its turn first. Raises AuthorityBusyError."""
    authority = urlsplit(url).netloc.rpartition("@")[2].lower()
    if authority:
        await _enter(authority)
    try:
        yield
    except HubError as exc:
        if authority and exc.retry_after and not isinstance(exc, UnavailableError):
            _hold(authority, exc.retry_after)
        raise


async def _enter(authority: str) -> None:
    names = (hub_redis.key("polite", "hold", authority), hub_redis.key("polite", "turn", authority))
    while True:
        try:
            held, turn = await tick_pipeline().call(
                "EVAL", _ENTER, 2, *names, settings.AUTHORITY_OPENINGS
            )
        except UnavailableError:
            return
        if held <= 0:
            await asyncio.sleep(min(turn / 1000, LONGEST_TURN))
            return
        if held / 1000 > PATIENCE_SECONDS:
            raise AuthorityBusyError(retry_after=held / 1000)
        await asyncio.sleep(held / 1000)


def _hold(authority: str, seconds: float) -> None:
    milliseconds = math.ceil(min(seconds, LONGEST_HOLD) * 1000)
    name = hub_redis.key("polite", "hold", authority)
    tick_pipeline().send("SET", name, 1, "PX", milliseconds)
