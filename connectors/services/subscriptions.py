"""Subscriptions: what downstream clients want their servers to announce, counted by who wants it.

A wish is held in Redis until it is dropped or its time is over, so that nothing is left of a web
process that died. The worker that holds the session brings the server in step (see wishes): the
first wish for a resource subscribes, the last one that goes unsubscribes.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from connectors.queue import EntryKind, LaneEntry, lane_writer, tick_pipeline
from connectors.selectors import ConnectionView
from mcphub.core import redis as hub_redis
from mcphub.core.errors import LimitError

MOST_WISHES = 2000
"""Of one connection, over all who want something of it."""
LONGEST_SECONDS = 3600


class TooManySubscriptionsError(LimitError):
    code = "too_many_subscriptions"
    title = "The connection has as many subscriptions as it may"


class Kind(StrEnum):
    """What can be wished for: `name` is a URI, a log level, or the id of a task or elicitation."""

    RESOURCE = "resource"
    TASK = "task"
    LOG_LEVEL = "level"
    ELICITATION = "elicitation"
    """Asked on the hub's own side only: a server tells of its end in any case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    kind: Kind
    name: str


async def hold(
    connection: ConnectionView, wishes: Collection[Wish], subscriber: str, seconds: float
) -> set[Wish]:
    """Hold wishes for `seconds`, at most an hour; return those that nobody else holds.

    Holding them again renews them. `subscriber` names who wants it, without blanks.
    Raises TooManySubscriptionsError, UnavailableError.
    """
    others = await _members(connection.id, but=subscriber)
    if len(others) + len(wishes) > MOST_WISHES:
        raise TooManySubscriptionsError(f"The limit is {MOST_WISHES}.")
    key, until = _key(connection.id), time.time() + seconds
    scored = [part for wish in wishes for part in (until, _member(subscriber, wish))]
    if scored:
        pipeline = tick_pipeline()
        pipeline.send("ZREMRANGEBYSCORE", key, "-inf", time.time())
        await pipeline.call("ZADD", key, *scored)
        pipeline.send("EXPIRE", key, LONGEST_SECONDS)
    held = {wish for _, wish in others}
    return {wish for wish in wishes if wish not in held}


async def drop(connection: ConnectionView, wishes: Iterable[Wish], subscriber: str) -> None:
    """Give wishes back. Raises UnavailableError."""
    members = [_member(subscriber, wish) for wish in wishes]
    if members:
        await tick_pipeline().call("ZREM", _key(connection.id), *members)
        bring_in_step(connection)


def bring_in_step(connection: ConnectionView) -> None:
    """Have the server's state compared with the wishes soon; a lost ring only delays."""
    if connection.held_by:
        entry = LaneEntry(kind=EntryKind.WISH, id=connection.id)
        lane_writer().ring(connection.held_by, entry)


async def wished(connection_id: uuid.UUID) -> set[Wish]:
    """Return what anybody wants of a connection now. Raises UnavailableError."""
    return {wish for _, wish in await _members(connection_id)}


async def _members(connection_id: uuid.UUID, *, but: str = "") -> list[tuple[str, Wish]]:
    found = await tick_pipeline().call(
        "ZRANGEBYSCORE", _key(connection_id), f"({time.time()}", "+inf"
    )
    members = []
    for member in found:
        subscriber, kind, name = member.decode().split(" ", 2)
        if subscriber != but:
            members.append((subscriber, Wish(kind=Kind(kind), name=name)))
    return members


def _member(subscriber: str, wish: Wish) -> str:
    return f"{subscriber} {wish.kind.value} {wish.name}"


def _key(connection_id: uuid.UUID) -> str:
    return hub_redis.key("wishes", connection_id.hex)
