"""What clients want to hear of: subscriptions to resources, listen streams, log levels."""

from __future__ import annotations

import secrets
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping

from mcp_types.jsonrpc import INVALID_PARAMS, INVALID_REQUEST

from connectors import selectors
from connectors.api import threads
from connectors.selectors import ConnectionView
from connectors.server_spec import Era
from connectors.services import subscriptions
from connectors.services.notices import Notice
from connectors.services.subscriptions import Kind, Wish
from connectors.started_tasks import TASKS_EXTENSION
from connectors.upstream.jsonrpc import notification
from gateway import hearing, interests, notifications, relay, sessions
from gateway.endpoint import Endpoint
from gateway.exchange import Exchange
from gateway.interests import Interest
from gateway.notifications import SUBSCRIPTION_ID_META_KEY, UPDATED
from gateway.projection import capabilities
from gateway.projection.capabilities import Client
from gateway.projection.tasks import task_origin
from gateway.projection.uris import origin_of
from gateway.sessions import Session
from gateway.sources import Source, sources_of
from gateway.wire import RpcFault
from mcphub.core.errors import ConflictError
from mcphub.core.types import JSONObject, JSONValue

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
LISTS = {f"{name}ListChanged": name for name in capabilities.LISTS}
LISTEN_SECONDS = 120.0
RENEW_SECONDS = 30.0


# --- the handshake era


async def subscribe(exchange: Exchange) -> JSONObject:
    session, (source, uri) = _session(exchange), await _resource(exchange)
    connection, wish = source.connection, Wish(kind=Kind.RESOURCE, name=uri)
    if not _can_subscribe(source):
        raise ConflictError("The server does not offer subscriptions.", code="not_offered")
    is_first = await subscriptions.hold(connection, [wish], session.id, sessions.IDLE_SECONDS)
    try:
        await interests.add(session, Interest(connection_id=connection.id, wish=wish))
        if is_first and connection.era == Era.LEGACY:
            params = {**exchange.params, "uri": uri}
            await relay.run(exchange, connection, target=uri, params=params)
    except BaseException:
        await _drop(session, connection, wish)
        raise
    subscriptions.bring_in_step(connection)
    return {}


async def unsubscribe(exchange: Exchange) -> JSONObject:
    session, (source, uri) = _session(exchange), await _resource(exchange)
    await _drop(session, source.connection, Wish(kind=Kind.RESOURCE, name=uri))
    return {}


async def set_level(exchange: Exchange) -> JSONObject:
    """Remember the level of this client, and have the servers log as much as anybody wants."""
    session, level = _session(exchange), exchange.params.get("level")
    if level not in hearing.LEVELS:
        raise RpcFault(INVALID_PARAMS, f"`level` is one of {', '.join(hearing.LEVELS)}.")
    exchange.adopt(await sessions.change(session, log_level=level))
    wish = Wish(kind=Kind.LOG_LEVEL, name=str(level))
    others = [Wish(kind=Kind.LOG_LEVEL, name=each) for each in hearing.LEVELS if each != level]
    for source in await sources_of(exchange.principal, exchange.endpoint):
        connection = source.connection
        if connection.era == Era.LEGACY and "logging" in source.capabilities:
            await subscriptions.hold(connection, [wish], session.id, sessions.IDLE_SECONDS)
            await subscriptions.drop(connection, others, session.id)
    return {}


async def _drop(session: Session, connection: ConnectionView, wish: Wish) -> None:
    await interests.remove(session, Interest(connection_id=connection.id, wish=wish))
    await subscriptions.drop(connection, [wish], session.id)


def _session(exchange: Exchange) -> Session:
    if exchange.session is None:
        raise RpcFault(INVALID_REQUEST, "There is no session.")
    return exchange.session


async def _resource(exchange: Exchange) -> tuple[Source, str]:
    """Return whose resource is meant and its own URI. Raises RpcFault for what is not here."""
    uri = exchange.params.get("uri")
    found = await sources_of(exchange.principal, exchange.endpoint)
    named = _named(exchange.endpoint, found, uri, Kind.RESOURCE)
    if named is None:
        raise RpcFault(INVALID_PARAMS, "There is no such resource.", {"uri": uri})
    return named


# --- 2026-07-28


async def listen(exchange: Exchange) -> JSONObject:
    """Keep a stream open with what the client asked for; it ends when the client closes it."""
    if not exchange.channel.can_stream:
        raise RpcFault(INVALID_REQUEST, "A subscription is a stream: accept text/event-stream.")
    wanted = exchange.params.get("notifications")
    if not isinstance(wanted, dict):
        raise RpcFault(INVALID_PARAMS, "`notifications` is an object.")
    audience = Listening(exchange, await sources_of(exchange.principal, exchange.endpoint))
    honored = await audience.honor(wanted)
    await audience.renew()

    async def acknowledge() -> None:
        told = audience.told({"notifications": honored})
        await exchange.channel.event(notification(ACKNOWLEDGED, told))

    try:
        async with notifications.renewing(audience, RENEW_SECONDS):
            await notifications.deliver(exchange, audience, exchange.channel, acknowledge)
    finally:
        await audience.leave()
    return {}


class Listening:
    """One listen stream: the filter of its client, as far as the hub can honor it."""

    def __init__(self, exchange: Exchange, found: Iterable[Source]) -> None:
        self.client = Client(version=exchange.version, capabilities=exchange.capabilities)
        self._principal, self._endpoint = exchange.principal, exchange.endpoint
        self._id = exchange.request.id
        self._subscriber = f"listen-{secrets.token_hex(16)}"
        self._sources = list(found)
        self._lists: set[str] = set()
        self._wishes: defaultdict[uuid.UUID, set[Wish]] = defaultdict(set)

    async def honor(self, wanted: JSONObject) -> JSONObject:
        """Return the part of a filter that is honored; the client never hears of anything else."""
        honored: JSONObject = {}
        offered = capabilities.offered(
            (source.declared for source in self._sources),
            self.client,
            is_aggregate=self._endpoint.is_aggregate,
        )
        for key, name in LISTS.items():
            declared = offered.get(name)
            is_offered = isinstance(declared, dict) and declared.get("listChanged") is True
            if wanted.get(key) is True and is_offered:
                honored[key] = True
                self._lists.add(f"notifications/{name}/list_changed")
        named = self._named(wanted.get("resourceSubscriptions"), Kind.RESOURCE)
        uris = [name for name, source, _ in named if _can_subscribe(source)]
        watched = self._named(wanted.get("taskIds"), Kind.TASK)
        known = await self._known_tasks(watched)
        tasks = [name for name, source, own in watched if own in known[source.connection.id]]
        if uris:
            honored["resourceSubscriptions"] = [*uris]
        if tasks:
            honored["taskIds"] = [*tasks]
        for kind, found, kept in ((Kind.RESOURCE, named, uris), (Kind.TASK, watched, tasks)):
            for name, source, own in found:
                if name in kept:
                    self._wishes[source.connection.id].add(Wish(kind=kind, name=own))
        return honored

    def _named(self, names: JSONValue, kind: Kind) -> list[tuple[str, Source, str]]:
        """Return what is meant by public names, each with its server and the server's own name."""
        listed = names[: interests.MOST] if isinstance(names, list) else []
        found = ((name, _named(self._endpoint, self._sources, name, kind)) for name in listed)
        return [(str(name), *one) for name, one in found if one is not None]

    async def _known_tasks(
        self, watched: Iterable[tuple[str, Source, str]]
    ) -> Mapping[uuid.UUID, set[str]]:
        """Return the member's own tasks, by connection: a server may not tell members apart."""
        by_connection: defaultdict[uuid.UUID, set[str]] = defaultdict(set)
        for _, source, own in watched:
            if _has_tasks(source):
                by_connection[source.connection.id].add(own)
        return {
            source.connection.id: await threads.run(
                selectors.known_tasks,
                self._principal,
                source.connection.id,
                by_connection[source.connection.id],
            )
            for source in self._sources
        }

    async def renew(self) -> None:
        """Hold the wishes of this stream. Raises UnavailableError, TooManySubscriptionsError."""
        for source in self._sources:
            if wishes := self._wishes.get(source.connection.id):
                connection = source.connection
                if await subscriptions.hold(connection, wishes, self._subscriber, LISTEN_SECONDS):
                    subscriptions.bring_in_step(connection)

    async def leave(self) -> None:
        for source in self._sources:
            wishes = self._wishes.get(source.connection.id, set())
            await subscriptions.drop(source.connection, wishes, self._subscriber)

    # --- Audience

    async def prepare(self, found: Iterable[Notice]) -> None:
        """Do nothing: the filter does not change."""

    def wants(self, notice: Notice, source: Source) -> bool:
        del source
        wishes = self.watched(notice.connection_id)
        if notice.method == UPDATED:
            return interests.covers(wishes, Kind.RESOURCE, notice.params.get("uri"))
        if notice.method == "notifications/tasks":
            return interests.covers(wishes, Kind.TASK, notice.params.get("taskId"))
        return False

    def wants_list(self, method: str) -> bool:
        return method in self._lists

    def watched(self, connection_id: uuid.UUID) -> Iterable[Wish]:
        return self._wishes.get(connection_id, ())

    def told(self, params: JSONObject) -> JSONObject:
        meta = params.get("_meta")
        kept = meta if isinstance(meta, dict) else {}
        return {**params, "_meta": {**kept, SUBSCRIPTION_ID_META_KEY: self._id}}


def _named(
    endpoint: Endpoint, found: Iterable[Source], name: JSONValue, kind: Kind
) -> tuple[Source, str] | None:
    """Return the server of a public URI or task id, and its own name for it."""
    if not isinstance(name, str) or not name:
        return None
    server, own = endpoint.server, name
    if server is None and kind is Kind.RESOURCE:
        resource = origin_of(name)
        server, own = (resource.server, resource.uri) if resource else (None, name)
    elif server is None:
        task = task_origin(name)
        server, own = (task.server, task.task_id) if task else (None, name)
    return next(((source, own) for source in found if source.slug == server), None)


def _can_subscribe(source: Source) -> bool:
    declared = source.capabilities.get("resources")
    return isinstance(declared, dict) and declared.get("subscribe") is True


def _has_tasks(source: Source) -> bool:
    declared = source.capabilities.get("extensions")
    return isinstance(declared, dict) and TASKS_EXTENSION in declared
