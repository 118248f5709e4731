"""A worker with a session to a scripted server, and calls that a downstream client relays."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from connectors.selectors import ConnectionView
from connectors.services import tool_calls
from connectors.services.outcomes import CallOutcome
from connectors.services.relays import RelayTerms
from connectors.services.tool_calls import CallRequest
from mcphub.core.types import JSONObject
from tenants.principal import Principal
from tests.connectors.call_stack import closing_loop_objects, view_of
from tests.connectors.session_stack import Stack, add_server, running_worker
from tests.fakes.raw_server import RawServer, serving_in_thread
from tests.world import Person

T = TypeVar("T")


@dataclass
class Heard:
    """What a downstream client is told; `is_due` is set with every notification."""

    notes: list[tuple[str, JSONObject]] = field(default_factory=list)
    dropped: int = 0
    is_due: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, method: str, params: JSONObject) -> None:
        self.notes.append((method, params))
        self.is_due.set()

    def drop(self, count: int) -> None:
        self.dropped += count

    def terms(self, capabilities: JSONObject | None = None) -> RelayTerms:
        return RelayTerms(
            client_capabilities=capabilities, on_notification=self.note, on_dropped=self.drop
        )


@dataclass(kw_only=True)
class Relaying:
    """What a test drives."""

    principal: Principal
    stack: Stack
    server: RawServer
    view: ConnectionView

    def call(self, request: CallRequest, seconds: float = 10.0) -> CallOutcome:
        """Submit a call and wait for its end."""

        async def submitted() -> CallOutcome:
            made = await tool_calls.submit(self.principal, self.view, request)
            outcome = await tool_calls.wait(made.id, seconds)
            assert outcome is not None
            return outcome

        return run(submitted)


def run(work: Callable[[], Awaitable[T]]) -> T:
    """Run what a web process does, in a loop of its own."""

    async def closed() -> T:
        async with closing_loop_objects():
            return await work()

    return asyncio.run(closed())


@contextmanager
def relaying(person: Person, server: RawServer) -> Iterator[Relaying]:
    with serving_in_thread(server), running_worker() as stack:
        row = stack.connect(person.principal, add_server(person.principal, server.url))
        yield Relaying(principal=person.principal, stack=stack, server=server, view=view_of(row))
