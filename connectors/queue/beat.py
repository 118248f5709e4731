"""The life sign of beat: without it nobody rings again and nobody looks for dead workers."""

from __future__ import annotations

import logging
import time

from redis.exceptions import RedisError

from connectors.queue.lanes import sync_client
from connectors.queue.pipeline import tick_pipeline
from mcphub.core import redis as hub_redis

BEAT_TTL = 20.0

logger = logging.getLogger(__name__)


def beat_key() -> str:
    return hub_redis.key("beat")


def announce_beat() -> None:
    """Renew the life sign; never raises, since a clock without Redis still has to tick."""
    try:
        sync_client().set(beat_key(), int(time.time()), px=int(BEAT_TTL * 1000))
    except (RedisError, OSError):
        logger.warning("life sign not sent")


async def is_beating() -> bool:
    """Whether beat has been seen within 20 s. Raises UnavailableError."""
    return bool(await tick_pipeline().call("EXISTS", beat_key()))
