"""Interests: what a session of the handshake era wants to hear of, found from any web process.

Kept in Redis as long as its session: resources that it subscribed to, tasks that it began, pages
that it was asked to show.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from connectors.queue import tick_pipeline
from connectors.services.subscriptions import Kind, Wish
from connectors.started_tasks import task_id_of
from gateway.sessions import IDLE_SECONDS, Session
from mcphub.core import redis
from mcphub.core.errors import LimitError
from mcphub.core.types import JSONObject

MOST = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Interest:
    """One thing at one server."""

    connection_id: uuid.UUID
    wish: Wish


async def add(session: Session, interest: Interest) -> None:
    """Remember an interest. Raises LimitError, UnavailableError."""
    key, pipeline = _key(session), tick_pipeline()
    if int(await pipeline.call("SCARD", key)) >= MOST:
        raise LimitError(f"A session can be interested in {MOST} things.")
    pipeline.send("SADD", key, _member(interest))
    await pipeline.call("EXPIRE", key, IDLE_SECONDS)


async def remove(session: Session, interest: Interest) -> None:
    await tick_pipeline().call("SREM", _key(session), _member(interest))


async def of(session: Session) -> Mapping[uuid.UUID, Collection[Wish]]:
    """Return what a session is interested in, by connection, and keep it. Raises UnavailableError.

    As long as it is asked for, it lives.
    """
    pipeline = tick_pipeline()
    pipeline.send("EXPIRE", _key(session), IDLE_SECONDS)
    found: defaultdict[uuid.UUID, set[Wish]] = defaultdict(set)
    for member in await pipeline.call("SMEMBERS", _key(session)):
        connection, kind, name = member.decode().split(" ", 2)
        found[uuid.UUID(hex=connection)].add(Wish(kind=Kind(kind), name=name))
    return found


async def note_task(session: Session | None, connection_id: uuid.UUID, result: JSONObject) -> None:
    """Remember a task that a call of a session has begun (2025-11-25)."""
    task_id = task_id_of(result)
    if session is not None and task_id is not None:
        await add(
            session, Interest(connection_id=connection_id, wish=Wish(kind=Kind.TASK, name=task_id))
        )


def covers(wishes: Iterable[Wish], kind: Kind, name: object) -> bool:
    """Whether a wish is for this; an update may be of a part of what was subscribed to."""
    if not isinstance(name, str):
        return False
    if kind is not Kind.RESOURCE:
        return Wish(kind=kind, name=name) in set(wishes)
    return any(
        wish.kind is kind and (name == wish.name or name.startswith(f"{wish.name.rstrip('/')}/"))
        for wish in wishes
    )


def _member(interest: Interest) -> str:
    return f"{interest.connection_id.hex} {interest.wish.kind.value} {interest.wish.name}"


def _key(session: Session) -> str:
    return redis.key("gateway", "interests", session.id)
