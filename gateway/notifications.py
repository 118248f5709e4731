"""Notifications in both directions, outside the answers to requests.

What servers announce reaches the stream of a client that it concerns: list changes, updates of what
it subscribed to, the status of its tasks, log messages of the level it wants. The newest of each
kind counts: a client that reads slowly misses repetitions, and keeps nobody else waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from connectors.server_spec import Era, Relay
from connectors.services import notices, root_changes, subscriptions
from connectors.services.notice_queue import LIST_CHANGES
from connectors.services.notices import Notice
from connectors.services.subscriptions import Kind, Wish
from connectors.upstream.jsonrpc import notification
from gateway import hearing, interests, mailbox, sessions
from gateway.endpoint import Endpoint
from gateway.exchange import Channel
from gateway.http import Answer
from gateway.projection import capabilities
from gateway.projection.capabilities import Client
from gateway.projection.results import Projection
from gateway.sessions import Session
from gateway.sources import Source, sources_of
from gateway.wire import Notification
from mcphub.core.errors import ConflictError, HubError
from mcphub.core.types import JSONObject
from tenants.principal import Principal

PERIOD = 0.1
"""Between two deliveries to one client; what comes meanwhile is coalesced."""
RENEW_SECONDS = 300.0
SUBSCRIPTION_ID_META_KEY = "io.modelcontextprotocol/subscriptionId"
UPDATED = "notifications/resources/updated"
ELICITED = "notifications/elicitation/complete"

Told = tuple[str, JSONObject]


async def take(session: Session, principal: Principal, message: Notification) -> None:
    """Take a notification of a client of the handshake era; unknown ones are ignored."""
    if message.method == root_changes.METHOD:
        await _pass_on_root_change(session, principal)
    if message.method == "notifications/cancelled":
        request_id = message.params.get("requestId")
        if isinstance(request_id, str | int) and not isinstance(request_id, bool):
            await mailbox.current().cancel(session.id, request_id)


async def _pass_on_root_change(session: Session, principal: Principal) -> None:
    """Tell the servers that may ask this client for roots, if it said that it would tell."""
    declared = session.capabilities.get("roots")
    if not isinstance(declared, dict) or declared.get("listChanged") is not True:
        return
    try:
        found = await sources_of(principal, session.endpoint)
    except HubError:  # the one server has gone meanwhile
        return
    for source in found:
        terms = source.relays.get(Relay.ROOTS)
        if terms is not None and terms.is_declared:
            root_changes.ring(source.connection)


async def feed(session: Session, principal: Principal, answer: Answer, claim: str) -> None:
    """Open the stream, and send what the servers of its endpoint announce, until cancelled.

    Raises HubError, also when the session has ended or a newer stream has taken over.
    """
    audience = SessionAudience(session, principal, claim)
    async with renewing(audience):
        await deliver(audience, audience, answer, answer.open_stream)


async def end(session: Session, principal: Principal) -> None:
    """Give back what an ended session had subscribed to."""
    wished = await interests.of(session)
    for source in await sources_of(principal, session.endpoint):
        levels = [Wish(kind=Kind.LOG_LEVEL, name=level) for level in hearing.LEVELS]
        wishes = [*wished.get(source.connection.id, ()), *levels]
        await subscriptions.drop(source.connection, wishes, session.id)


class Audience(Protocol):
    """Who hears: decides about each notice."""

    client: Client

    async def prepare(self, found: Iterable[Notice]) -> None:
        """Look up what `wants` has to know about these notices."""

    def wants(self, notice: Notice, source: Source) -> bool: ...

    def wants_list(self, method: str) -> bool: ...

    def watched(self, connection_id: uuid.UUID) -> Iterable[Wish]:
        """Return what this client has subscribed to at a server."""

    def told(self, params: JSONObject) -> JSONObject:
        """Return params with what marks them for this client."""


class Place(Protocol):
    """Where an audience is: an exchange, or the stream of a session."""

    @property
    def principal(self) -> Principal: ...

    @property
    def endpoint(self) -> Endpoint: ...


async def deliver(
    place: Place, audience: Audience, channel: Channel, begin: Callable[[], Awaitable[None]]
) -> None:
    """Send what concerns an audience until cancelled; `begin` once nothing can be missed.

    Raises HubError.
    """
    view = View(place.principal, place.endpoint, audience)
    await view.read()
    only = None if place.endpoint.is_aggregate else set(view.sources)
    async with notices.current().listen(place.principal, only) as listener:
        await view.read()
        await begin()
        while True:
            found, dropped = await listener.take()
            for method, params in await view.shown(found, dropped):
                await channel.event(notification(method, audience.told(params)))
            await asyncio.sleep(PERIOD)


@dataclass(slots=True)
class View:
    """The servers of one endpoint, and how what they announce looks there."""

    principal: Principal
    endpoint: Endpoint
    audience: Audience
    sources: dict[uuid.UUID, Source] = field(default_factory=dict)
    _foreign: set[uuid.UUID] = field(default_factory=set)
    """Connections of the member that are no part of the endpoint."""

    async def read(self) -> None:
        found = await sources_of(self.principal, self.endpoint)
        self.sources = {source.connection.id: source for source in found}

    async def shown(self, found: Iterable[Notice], dropped: int) -> list[Told]:
        """Return what the client is told, each list change once however many servers have it."""
        found = [*found]
        told: dict[object, Told] = {}
        if self._is_about_servers(found):
            for method in sorted(await self._changed_by_servers()):
                told[method] = (method, {})
            self._foreign = {notice.connection_id for notice in found} - set(self.sources)
        await self.audience.prepare(found)
        for notice in self._with_lost(found):
            source = self.sources.get(notice.connection_id)
            if source is None:
                continue
            if notice.method in LIST_CHANGES:
                if self._announces(source, notice.method):
                    told[notice.method] = (notice.method, {})
            elif notice.method.startswith("notifications/") and self.audience.wants(notice, source):
                params = self._projection(source).notification(notice.method, notice.params)
                told[len(told)] = (notice.method, params)
        if dropped and self.audience.wants_list(notices.MESSAGE):
            told[len(told)] = (notices.MESSAGE, hearing.dropped(dropped))
        return list(told.values())

    def _is_about_servers(self, found: Collection[Notice]) -> bool:
        """Whether servers came or went, or one is not known here yet."""
        known = {*self.sources, *self._foreign, notices.NOBODY}
        return any(
            notice.method == notices.CONNECTION or notice.connection_id not in known
            for notice in found
        )

    async def _changed_by_servers(self) -> Iterable[str]:
        """Read the servers again; on the aggregate their lists come and go with them."""
        before = {pk for pk, source in self.sources.items() if source.is_connected}
        earlier = self._list_changes()
        await self.read()
        after = {pk for pk, source in self.sources.items() if source.is_connected}
        if not self.endpoint.is_aggregate or before == after:
            return ()
        return earlier | self._list_changes()

    def _list_changes(self) -> set[str]:
        """Return the list changes of which this client was told that it would hear."""
        offered = capabilities.offered(
            (source.declared for source in self.sources.values()),
            self.audience.client,
            is_aggregate=self.endpoint.is_aggregate,
        )
        return {
            f"notifications/{name}/list_changed"
            for name in capabilities.LISTS
            if name in offered and self.audience.wants_list(f"notifications/{name}/list_changed")
        }

    def _announces(self, source: Source, method: str) -> bool:
        if not self.audience.wants_list(method):
            return False
        declared = source.capabilities.get(method.split("/")[1])
        is_declared = isinstance(declared, dict) and declared.get("listChanged") is True
        return self.endpoint.is_aggregate or is_declared

    def _with_lost(self, found: Iterable[Notice]) -> Iterable[Notice]:
        """Replace a gap by everything that may have been in it."""
        for notice in found:
            if notice.method != notices.LOST:
                yield notice
                continue
            for pk in self.sources:
                for method in sorted(LIST_CHANGES):
                    yield Notice(connection_id=pk, method=method)
                for wish in self.audience.watched(pk):
                    if wish.kind is Kind.RESOURCE:
                        yield Notice(connection_id=pk, method=UPDATED, params={"uri": wish.name})

    def _projection(self, source: Source) -> Projection:
        return Projection(server=source.slug, is_identity=not self.endpoint.is_aggregate)


class SessionAudience:
    """A client of the handshake era, by its session as it is stored."""

    def __init__(self, session: Session, principal: Principal, claim: str) -> None:
        self.session = session
        self._claim = claim
        self.client = Client(version=session.version, capabilities=session.capabilities)
        self.principal = principal
        self._wishes: Mapping[uuid.UUID, Collection[Wish]] = {}

    @property
    def endpoint(self) -> Endpoint:
        return self.session.endpoint

    async def prepare(self, found: Iterable[Notice]) -> None:
        del found
        if not await sessions.keeps_stream(self.session, self._claim):
            raise ConflictError("A newer stream of this session has taken over.")
        self._wishes = await interests.of(self.session)
        session = self.session
        self.session = await sessions.find(self.principal, session.endpoint, session.id)

    def wants(self, notice: Notice, source: Source) -> bool:
        params, wishes = notice.params, self.watched(notice.connection_id)
        if notice.method == UPDATED:
            return interests.covers(wishes, Kind.RESOURCE, params.get("uri"))
        if notice.method == "notifications/tasks/status":
            return interests.covers(wishes, Kind.TASK, params.get("taskId"))
        if notice.method == "notifications/tasks":
            return False
        if notice.method == notices.MESSAGE:
            wish = self.session.log_level or hearing.LEVELS[0]
            return "logging" in source.capabilities and hearing.is_wanted(params.get("level"), wish)
        if notice.method == ELICITED:
            return interests.covers(wishes, Kind.ELICITATION, params.get("elicitationId"))
        return not self.session.endpoint.is_aggregate

    def wants_list(self, method: str) -> bool:
        del method
        return True

    def watched(self, connection_id: uuid.UUID) -> Iterable[Wish]:
        return self._wishes.get(connection_id, ())

    def told(self, params: JSONObject) -> JSONObject:
        """Return params without the mark of the hub's own subscription at a server."""
        meta = params.get("_meta")
        if not isinstance(meta, dict) or SUBSCRIPTION_ID_META_KEY not in meta:
            return params
        kept = {key: value for key, value in meta.items() if key != SUBSCRIPTION_ID_META_KEY}
        rest = {key: value for key, value in params.items() if key != "_meta"}
        return {**rest, "_meta": kept} if kept else rest

    async def renew(self) -> None:
        """Hold what the session wishes as long as its stream is open."""
        wished = await interests.of(self.session)
        for source in await sources_of(self.principal, self.session.endpoint):
            found = wished.get(source.connection.id, ())
            wishes = {wish for wish in found if wish.kind is not Kind.ELICITATION}
            if self.session.log_level and source.connection.era == Era.LEGACY:
                wishes.add(Wish(kind=Kind.LOG_LEVEL, name=self.session.log_level))
            if wishes:
                await subscriptions.hold(
                    source.connection, wishes, self.session.id, sessions.IDLE_SECONDS
                )


class Renewed(Protocol):
    async def renew(self) -> None: ...


@asynccontextmanager
async def renewing(audience: Renewed, seconds: float = RENEW_SECONDS) -> AsyncIterator[None]:
    """Renew an audience's wishes at once and now and then until the block ends."""

    async def renew() -> None:
        while True:
            with contextlib.suppress(HubError):  # their time is longer than a few attempts
                await audience.renew()
            await asyncio.sleep(seconds)

    task = asyncio.get_running_loop().create_task(renew())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
