"""What a stream of events can be subscribed to, and who may.

Topics are `servers`, `calls`, `traces`, or one object: `server:{id}`, `call:{id}`, `trace:{server
id}`. Whether an object is the principal's is known above this package: `register_topic` and
`register_visible_servers` are called at start-up by the package that owns the objects.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from mcphub.core.errors import FieldProblem, InvalidInputError, NotFoundError
from mcphub.core.event_stream import Route
from tenants.principal import Principal, Scope

MAX_TOPICS = 100
MAX_ID = 64
FAMILIES = frozenset({"servers", "calls", "traces"})

Kind = Literal["server", "call"]
Checker = Callable[[Principal, str], Awaitable[bool]]
Lister = Callable[[Principal], Collection[str]]

_KIND_OF: dict[str, Kind] = {"server": "server", "call": "call", "trace": "server"}
_checkers: dict[Kind, Checker] = {}
_listers: list[Lister] = []


def register_topic(kind: Kind, checker: Checker) -> None:
    """Let `checker(principal, id)` decide whether a server or call may be subscribed to."""
    _checkers[kind] = checker


def register_visible_servers(lister: Lister) -> None:
    """Let `lister(principal)` tell the server ids of a principal limited to some connectors."""
    _listers[:] = [lister]


async def is_visible(kind: Kind, principal: Principal, object_id: str) -> bool:
    """Whether the object exists and is the principal's; no without a checker."""
    checker = _checkers.get(kind)
    return checker is not None and await checker(principal, object_id)


def visible_servers(principal: Principal) -> Collection[str] | None:
    """Return the only server ids whose events the principal may see; None: all its own."""
    if principal.allowed_connectors is None:
        return None
    return _listers[0](principal) if _listers else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """Topics that were checked; matches events by their route."""

    topics: tuple[str, ...] = ()
    families: frozenset[str] = frozenset()
    servers: frozenset[str] = frozenset()
    calls: frozenset[str] = frozenset()
    traced_servers: frozenset[str] = frozenset()

    @property
    def wants_traces(self) -> bool:
        return "traces" in self.families or bool(self.traced_servers)

    def accepts(self, route: Route) -> bool:
        """Whether the event is wanted; input requests belong to their server and to their call."""
        kind = route.type.partition(".")[0]
        if kind == "trace":
            return "traces" in self.families or route.server in self.traced_servers
        is_call = kind in {"call", "elicitation"}
        if is_call and ("calls" in self.families or route.call in self.calls):
            return True
        return kind != "call" and ("servers" in self.families or route.server in self.servers)


async def subscription_for(principal: Principal, topics: Sequence[str]) -> Subscription:
    """Check every topic anew.

    Raises InvalidInputError (no such topic), NotPermittedError (scope), NotFoundError (unknown id
    or somebody else's, same answer).
    """
    if len(topics) > MAX_TOPICS:
        raise _refused(f"At most {MAX_TOPICS} topics.")
    ids: dict[str, set[str]] = {name: set() for name in _KIND_OF}
    families: set[str] = set()
    for topic in topics:
        name, separator, object_id = topic.partition(":")
        principal.require(Scope.TRACES_READ if name in {"traces", "trace"} else Scope.SERVERS_READ)
        if topic in FAMILIES:
            families.add(topic)
        elif not separator or name not in _KIND_OF or not 0 < len(object_id) <= MAX_ID:
            raise _refused("A topic is servers, calls, traces, server:…, call:… or trace:….")
        elif not await is_visible(_KIND_OF[name], principal, object_id):
            raise NotFoundError
        else:
            ids[name].add(object_id)
    return Subscription(
        topics=tuple(topics),
        families=frozenset(families),
        servers=frozenset(ids["server"]),
        calls=frozenset(ids["call"]),
        traced_servers=frozenset(ids["trace"]),
    )


def _refused(message: str) -> InvalidInputError:
    return InvalidInputError(problems=[FieldProblem(path="/topics", message=message)])
