"""How often something may happen: a generic cell rate (GCRA) per name, counted in Redis.

One atomic script, no read-modify-write. Without Redis everything is let through: the limits protect
the hub's own quality, not its secrets.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from redis.exceptions import RedisError

from mcphub.core import redis
from mcphub.core.errors import LimitError

logger = logging.getLogger(__name__)

# KEYS[1]: theoretical arrival time in ms. ARGV: events allowed, window in ms.
# Returns how many ms to wait; 0: it may happen and was counted.
TAKE = """
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local window = tonumber(ARGV[2])
local step = window / tonumber(ARGV[1])
local due = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now)
local early = due + step - window - now
if early > 0 then return math.ceil(early) end
redis.call('SET', KEYS[1], due + step, 'PX', math.ceil(due + step - now))
return 0
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """At most `limit` events in `window` seconds, spread evenly after a first burst."""

    name: str
    limit: int
    window: int = 60


def take(rate: Rate, whose: str) -> None:
    """Count one event of `whose`. Raises LimitError (429, `rate_limited`) with the wait."""
    name = redis.key("rate", rate.name, whose)
    try:
        wait = int(redis.shared().eval(TAKE, 1, name, rate.limit, rate.window * 1000))
    except RedisError as exc:
        logger.warning("rate not counted name=%s error=%s", rate.name, type(exc).__name__)
        return
    if wait > 0:
        raise LimitError(
            code="rate_limited",
            retry_after=wait / 1000,
            extra={"limit": rate.name, "quota": rate.limit, "window": rate.window},
        )
