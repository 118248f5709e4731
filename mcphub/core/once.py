"""Guard of periodic work: two schedulers, or a backlog of one, do it once."""

from __future__ import annotations

from redis.exceptions import RedisError

from mcphub.core import redis as hub_redis


def once_per(name: str, *, seconds: float) -> bool:
    """Whether the caller is the first to do `name` within `seconds`; also when Redis is away."""
    client = hub_redis.open_sync(read_seconds=1.0)
    try:
        key = hub_redis.key("once", name)
        return bool(client.set(key, 1, nx=True, px=int(seconds * 1000)))
    except (RedisError, OSError):
        return True
    finally:
        client.close()
