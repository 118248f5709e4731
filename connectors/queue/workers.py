"""The register of workers: who is alive, how busy, and who may be called dead."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from threading import Lock
from typing import Any

from django.conf import settings
from redis.exceptions import RedisError

from connectors.queue.lanes import sync_client
from connectors.queue.pipeline import execute, tick_pipeline
from mcphub.core import redis as hub_redis
from mcphub.core.errors import UnavailableError

FRESH_SECONDS = 1.0
REMEMBERED_SECONDS = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLoad:
    """What a worker says about itself with every heartbeat."""

    worker: str
    calls: int = 0
    sessions: int = 0
    is_draining: bool = False
    since: int = 0
    """When it started, in Unix seconds."""
    executed: int = 0
    duplicates: int = 0
    """Rings for calls that somebody had already."""
    outrun: int = 0
    """Ends that did not count, since the call had been decided."""
    tasks: int = 0
    """Tasks of its event loop."""

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: bytes) -> WorkerLoad | None:
        """Return None for what is none; members of a newer version are left out."""
        try:
            found = json.loads(text)
            return cls(**{name: found[name] for name in _MEMBERS & found.keys()})
        except (ValueError, TypeError, AttributeError):
            return None


_MEMBERS = frozenset(member.name for member in fields(WorkerLoad))


def worker_key(worker: str) -> str:
    return hub_redis.key("worker", worker)


def _names_key() -> str:
    return hub_redis.key("workers")


def _since_key() -> str:
    return hub_redis.key("workers", "since")


# One round trip: names of workers seen within the hour, and what their keys hold.
_LIST = """
local found = {}
for _, name in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local load = redis.call('GET', ARGV[1] .. name)
  if load then found[#found + 1] = load end
end
return found
"""


def _list_command() -> tuple[Any, ...]:
    return ("EVAL", _LIST, 1, _names_key(), worker_key(""))


class _Known:
    """The last listing, shared by the threads and loops of this process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._loads: tuple[WorkerLoad, ...] = ()
        self._at = float("-inf")
        self._prefix = ""

    def fresh(self) -> tuple[WorkerLoad, ...] | None:
        with self._lock:
            # "nobody" is never remembered: the first worker may be a moment away
            is_fresh = bool(self._loads) and time.monotonic() - self._at < FRESH_SECONDS
            return self._loads if is_fresh and self._prefix == _names_key() else None

    def keep(self, answer: Iterable[bytes]) -> tuple[WorkerLoad, ...]:
        loads = tuple(load for text in answer if (load := WorkerLoad.decode(text)))
        with self._lock:
            self._loads, self._at, self._prefix = loads, time.monotonic(), _names_key()
        return loads

    def forget(self) -> None:
        with self._lock:
            self._at = float("-inf")


_known = _Known()


async def live_workers() -> Sequence[WorkerLoad]:
    """Return the workers that are alive, at most a second old. Raises UnavailableError."""
    found = _known.fresh()
    return found if found is not None else _known.keep(await tick_pipeline().call(*_list_command()))


def live_workers_sync() -> Sequence[WorkerLoad]:
    """As `live_workers`, for code without an event loop."""
    found = _known.fresh()
    if found is not None:
        return found
    try:
        return _known.keep(execute(sync_client(), *_list_command()))
    except (RedisError, OSError) as exc:
        raise UnavailableError("Redis is away.", retry_after=1.0) from exc


def choose_worker(workers: Sequence[WorkerLoad]) -> WorkerLoad:
    """Return the least busy worker that takes work. Raises UnavailableError: there is none."""
    able = [load for load in workers if not load.is_draining]
    if not able:
        raise UnavailableError("No worker is running.", code="no_worker", retry_after=2.0)
    return min(able, key=lambda load: (load.calls, load.sessions, load.worker))


async def announce_worker(load: WorkerLoad) -> None:
    """Renew a worker's entry; to be called every 3 s by its loop. Raises UnavailableError."""
    ttl_ms = int(settings.WORKER_TTL * 1000)
    now = time.time()
    pipeline = tick_pipeline()
    pipeline.send("ZADD", _names_key(), now, load.worker)
    pipeline.send("ZREMRANGEBYSCORE", _names_key(), "-inf", now - REMEMBERED_SECONDS)
    pipeline.send("SET", _since_key(), int(now), "NX")
    await pipeline.call("SET", worker_key(load.worker), load.encode(), "PX", ttl_ms)


def forget_worker(worker: str) -> None:
    """Strike a worker off that is known to have ended. Raises RedisError."""
    client = sync_client()
    client.delete(worker_key(worker))
    client.zrem(_names_key(), worker)
    _known.forget()


def dead_workers(workers: Iterable[str]) -> frozenset[str]:
    """Return those of `workers` that may be called dead. Raises UnavailableError.

    A missing key proves nothing just after Redis was restarted or emptied: the register must have
    existed, and Redis been up, for longer than a key lives.
    """
    names = sorted(set(workers))
    if not names:
        return frozenset()
    client = sync_client()
    try:
        uptime = float(client.info("server")["uptime_in_seconds"])
        client.set(_since_key(), int(time.time()), nx=True)
        since = float(client.get(_since_key()) or time.time())
        found = client.mget([worker_key(name) for name in names])
    except (RedisError, OSError) as exc:
        raise UnavailableError("Redis is away.", retry_after=1.0) from exc
    if min(uptime, time.time() - since) < settings.WORKER_TTL:
        return frozenset()
    return frozenset(name for name, load in zip(names, found, strict=True) if load is None)


def is_alive(worker: str) -> bool:
    """Whether `worker` may not be called dead; "" is dead. Raises UnavailableError."""
    return bool(worker) and worker not in dead_workers([worker])


def forget_known() -> None:
    """Ask Redis again at the next look, however fresh the last one is."""
    _known.forget()
