"""A worker in the test's process: real host, keeper and lane; its timers go off when told to."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from connectors.models import Connection, TimelineEntry
from connectors.server_spec import AuthType
from connectors.services import connections, custom_servers
from connectors.services.custom_servers import NewServer
from connectors.services.kept import Pace
from connectors.upstream.session import UpstreamRequest
from connectors.worker import SessionWorker
from mcphub.core.clock import Deadline
from mcphub.core.errors import HubError
from mcphub.core.types import JSONObject
from tenants.principal import Principal
from tests import factories
from tests.waiting import eventually

SECONDS = 15.0


@dataclass
class HeldTimers:
    """Timers that go off when the test says so; the clock of retries."""

    waits: list[float] = field(default_factory=list)
    _pending: list[Callable[[], None]] = field(default_factory=list)

    def later(self, wait: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        self.waits.append(wait)
        self._pending.append(call)
        loop = asyncio.get_running_loop()
        return loop.call_later(3600, lambda: None)

    @property
    def is_set(self) -> bool:
        return bool(self._pending)

    def pop(self) -> Callable[[], None]:
        return self._pending.pop()


@dataclass(kw_only=True)
class Stack:
    """One running worker and what a test asks of it."""

    worker: SessionWorker
    timers: HeldTimers

    def open(self, connection: Connection) -> Connection:
        """Open as the lifecycle task does, and wait for the end; raises what prevented it."""
        keeper = self.worker.keeper
        self.worker.host.run(keeper.open(connection.pk), SECONDS)
        connection.refresh_from_db()
        return connection

    def ask_to_open(self, connection: Connection) -> None:
        """Ask as the lane does; nobody waits."""
        self.worker.host.run(self.worker.keeper.start_open(connection.pk), SECONDS)

    def try_open(self, connection: Connection) -> HubError | None:
        """As `open`, returning the error."""
        try:
            self.open(connection)
        except HubError as exc:
            connection.refresh_from_db()
            return exc
        return None

    def connect(self, principal: Principal, connection: Connection) -> Connection:
        """Connect as a member does, with this worker taking the task."""
        return self.open(connections.connect(principal, connection))

    def call(
        self,
        connection: Connection,
        tool: str,
        *,
        on_progress: Callable[[JSONObject], None] | None = None,
    ) -> HubError | None:
        """Call a tool straight on the session; returns what it failed with."""
        request = UpstreamRequest(
            method="tools/call",
            params={"name": tool, "arguments": {}},
            deadline=Deadline.after(SECONDS),
            on_progress=on_progress,
        )
        try:
            self.worker.host.run(self.worker.keeper.request(connection.pk, request), SECONDS)
        except HubError as exc:
            return exc
        return None

    def close(self, connection: Connection) -> None:
        self.worker.host.run(self.worker.keeper.close(connection.pk), SECONDS)

    def go_off(self) -> None:
        """Let the next timer go off, and wait until the attempt that it starts is over."""
        eventually(lambda: self.timers.is_set, what="a timer is set")

        async def run() -> None:
            before = asyncio.all_tasks()
            self.timers.pop()()
            await asyncio.gather(*(asyncio.all_tasks() - before))

        self.worker.host.run(run(), SECONDS)

    def is_open(self, connection: Connection) -> bool:
        return connection.pk in self.sessions()

    def sessions(self) -> dict[uuid.UUID, int]:
        async def read() -> dict[uuid.UUID, int]:
            return self.worker.host.sessions()

        return self.worker.host.run(read(), SECONDS)


@contextmanager
def running_worker(*, slot: str = "", jitter: float = 0.5) -> Iterator[Stack]:
    """Run a worker until the block ends; its retries wait for `go_off`."""
    timers = HeldTimers()
    pace = Pace(jitter=lambda: jitter, later=timers.later, refresh_seconds=0.2, wish_seconds=0.2)
    worker = SessionWorker(slot=slot, pace=pace)
    worker.start()
    try:
        yield Stack(worker=worker, timers=timers)
    finally:
        worker.stop()


def add_server(principal: Principal, url: str, *, name: str = "", **fields: object) -> Connection:
    """Add a custom server of the principal; not connected yet."""
    auth_type = AuthType(str(fields.pop("auth_type", "none")))
    new = NewServer(
        name=name or factories.unique("server"), url=url, auth_type=auth_type, fields=fields
    )
    return custom_servers.create_custom_server(principal, new)


def kinds_of(connection: Connection) -> list[str]:
    """Return the kinds of the connection's timeline, oldest first."""
    rows = TimelineEntry.unscoped.filter(connection=connection).order_by("id")
    return list(rows.values_list("kind", flat=True))
