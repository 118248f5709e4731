"""Where a call goes, from memory: the tenant gate of the hot path, at most a second old.

A connected row is read about once per second and process, its tools once per catalog version.
Loads run on threads of their own; callers of one moment share one load. Other states and unknown
ids are not kept, so a server that was just connected can be called at once. A tool that is not
found, and a newer catalog that the caller knows of, are looked up again before the second is over.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from django.db import close_old_connections, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from connectors.models import CatalogTool, Connection, Connector
from connectors.selectors.connections import connection_for, is_virtual, server_of
from connectors.selectors.servers import UnknownToolError, tools_for
from connectors.selectors.views import CallTarget, ConnectionView, ToolView
from connectors.states import State
from mcphub.core.errors import ConflictError
from mcphub.core.patience import database_patience
from tenants.principal import Principal

FRESH_SECONDS = 1.0
LARGEST = 5_000
THREADS = 2

Key = tuple[uuid.UUID, uuid.UUID, str, frozenset[str] | None, bool]


class NotConnectedError(ConflictError):
    code = "not_connected"
    title = "The server is not connected"


@dataclass(frozen=True, slots=True)
class Found:
    """One loaded connection with its tools by name and by public name."""

    connection: ConnectionView
    tools: Mapping[str, ToolView]
    public: Mapping[str, ToolView]

    def has(self, tool: str) -> bool:
        """Whether a tool has this name; without a catalog that was read, any may."""
        return tool in self.tools or tool in self.public or not self.connection.catalog_version

    def target(self, tool: str | None) -> CallTarget:
        """Return where the call goes. Raises UnknownToolError when a read catalog lacks it."""
        if tool is None:
            return CallTarget(connection=self.connection)
        if not self.has(tool):
            raise UnknownToolError
        found = self.tools.get(tool) or self.public.get(tool)
        return CallTarget(connection=self.connection, tool=found)


Suits = Callable[[Found], bool]


def any_suits(found: Found) -> bool:
    del found
    return True


@dataclass(frozen=True, slots=True)
class Entry:
    until: float
    loading: Future[Found]

    @property
    def is_good(self) -> bool:
        """One that still loads is: another beside it would only make the queue longer."""
        return not self.loading.done() or self.until > time.monotonic()


class CallTargets:
    """The cache; one for the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: OrderedDict[Key, Entry] = OrderedDict()
        self._last: OrderedDict[uuid.UUID, Found] = OrderedDict()
        self._servers: OrderedDict[tuple[uuid.UUID, uuid.UUID, str], str] = OrderedDict()
        self._opened: set[BaseDatabaseWrapper] = set()
        self._threads = self._new_threads()

    async def find(self, principal: Principal, slug: str, suits: Suits = any_suits) -> Found:
        """Return the connection and its tools, read anew at once when the kept ones do not suit.

        Raises NotFoundError, NotConnectedError.
        """
        loading = self._load(principal, slug)
        found = await _result_of(loading)
        if suits(found):
            return found
        return await _result_of(self._load(principal, slug, instead_of=loading))

    def find_now(self, principal: Principal, slug: str) -> Found:
        """As `find`, for code that runs in a thread."""
        return self._load(principal, slug).result()

    async def server_of(self, principal: Principal, public_name: str) -> str:
        """Return the id of the server with this public name. Raises UnknownToolError.

        The stored table decides, never a split of the name. Names do not move, so it is asked once.
        """
        key = (principal.tenant_id, principal.member_id, public_name)
        known = self._servers.get(key)
        if known is None:
            reading = self._threads.submit(_read_server, principal, public_name)
            known = await asyncio.shield(asyncio.wrap_future(reading))
            with self._lock:
                self._servers[key] = known
                while len(self._servers) > LARGEST:
                    self._servers.popitem(last=False)
        return known

    def forget_name(self, principal: Principal, public_name: str) -> None:
        """Ask the table again at the next call of this public name."""
        with self._lock:
            self._servers.pop((principal.tenant_id, principal.member_id, public_name), None)

    def close(self) -> None:
        """End the threads with their database connections."""
        self.clear()
        threads, self._threads = self._threads, self._new_threads()
        threads.shutdown(wait=True)
        while self._opened:
            connection = self._opened.pop()
            connection.inc_thread_sharing()  # its own thread has ended
            connection.close()

    def _new_threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(
            max_workers=THREADS,
            thread_name_prefix="call-targets",
            initializer=lambda: self._opened.update(connections.all()),
        )

    def forget(self, principal: Principal, slug: str) -> None:
        """Read this connection anew at the next call of this process."""
        with self._lock:
            for key in [key for key in self._entries if key[:3] == _key(principal, slug)[:3]]:
                found = self._entries.pop(key).loading
                if found.done() and found.exception() is None:
                    self._last.pop(found.result().connection.id, None)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._last.clear()
            self._servers.clear()

    def _load(
        self, principal: Principal, slug: str, *, instead_of: Future[Found] | None = None
    ) -> Future[Found]:
        key = _key(principal, slug)
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and entry.is_good and entry.loading is not instead_of:
                return entry.loading
            loading = self._threads.submit(self._read, principal, slug)
            self._entries[key] = Entry(time.monotonic() + FRESH_SECONDS, loading)
            self._entries.move_to_end(key)
            while len(self._entries) > LARGEST:
                self._entries.popitem(last=False)
        loading.add_done_callback(lambda future: self._drop_unsettled(key, future))
        return loading

    def _drop_unsettled(self, key: Key, loading: Future[Found]) -> None:
        """Keep connected ones only: anything else may be connected a moment later."""
        if loading.exception() is None and loading.result().connection.state is State.CONNECTED:
            return
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and entry.loading is loading:
                del self._entries[key]

    def _read(self, principal: Principal, slug: str) -> Found:
        close_old_connections()
        row = connection_for(principal, slug)
        if is_virtual(row):
            raise NotConnectedError
        view = connection_view(row)
        last = self._last.get(row.pk)
        if last is not None and last.connection.catalog_version == view.catalog_version:
            found = Found(view, last.tools, last.public)
        else:
            tools = tools_for(principal, row)
            found = Found(
                view,
                {tool.name: tool for tool in tools},
                {tool.public_name: tool for tool in tools},
            )
        with self._lock:
            self._last[row.pk] = found
            self._last.move_to_end(row.pk)
            while len(self._last) > LARGEST:
                self._last.popitem(last=False)
        return found


async def _result_of(loading: Future[Found]) -> Found:
    if loading.done():
        return loading.result()
    async with database_patience():
        return await asyncio.shield(asyncio.wrap_future(loading))


def _read_server(principal: Principal, public_name: str) -> str:
    close_old_connections()
    rows = CatalogTool.objects.of(principal).filter(
        member_id=principal.member_id, public_name=public_name, is_listed=True
    )
    found = rows.values_list("connection__slug", flat=True).first()
    if found is None:
        raise UnknownToolError
    return found


targets = CallTargets()


async def connection_for_call(
    principal: Principal, slug: str, tool: str | None = None
) -> CallTarget:
    """Return where a call goes; no SQL in the common case.

    Raises NotFoundError (unknown or foreign id), UnknownToolError, NotConnectedError (a preset that
    was never connected).
    """
    if tool is None:
        return (await targets.find(principal, slug)).target(None)
    return (await targets.find(principal, slug, lambda found: found.has(tool))).target(tool)


async def public_tool_for_call(principal: Principal, public_name: str) -> CallTarget:
    """Return where a call of a public name goes, as the principal may see it.

    Raises UnknownToolError, NotFoundError, NotConnectedError.
    """
    server = await targets.server_of(principal, public_name)
    kept = await targets.find(principal, server, lambda found: public_name in found.public)
    found = kept.public.get(public_name)
    if found is None:
        targets.forget_name(principal, public_name)
        raise UnknownToolError
    return await connection_for_call(principal, server, found.name)


def connection_view(row: Connection) -> ConnectionView:
    """Return the picture of a stored connection that calls travel with."""
    server = server_of(row)
    preset = server if isinstance(server, Connector) else None
    return ConnectionView(
        id=row.pk,
        tenant_id=row.tenant_id,
        member_id=row.member_id,
        slug=row.slug,
        state=State(row.state),
        is_wanted=row.is_wanted,
        held_by=row.held_by,
        epoch=row.epoch,
        era=row.era,
        catalog_version=row.catalog_version,
        call_timeout=server.call_timeout,
        connector=preset.slug if preset else None,
        may_replay_reads=bool(preset and preset.may_replay_reads),
        log_level=row.log_level,
    )


def _key(principal: Principal, slug: str) -> Key:
    return (
        principal.tenant_id,
        principal.member_id,
        slug,
        principal.allowed_connectors,
        principal.may_add_servers,
    )
