"""A worker in the test's process, a server that asks, and a member who answers by REST."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.test import Client

from connectors import selectors
from connectors.models import CallStatus, Connection, ToolCall
from connectors.queue import tick_pipeline
from connectors.selectors import ConnectionView
from connectors.server_spec import Relay
from connectors.services import connections, consents, reaper, tool_calls
from connectors.services.outcomes import outcome_of
from connectors.services.tool_calls import CallRequest
from tests.connectors.call_stack import closing_loop_objects, view_of
from tests.connectors.rest import send
from tests.connectors.server_factories import make_connector
from tests.connectors.session_stack import Stack, add_server, running_worker
from tests.fakes.asking_server import AskingServer
from tests.fakes.mcp_servers import Kind, RunningServer, running
from tests.waiting import eventually
from tests.world import Person

ACCEPT = {"action": "accept", "content": {"name": "Ada", "age": 36}}
OPEN = "/api/v1/elicitations"


@dataclass(kw_only=True)
class Asking:
    """What a test drives."""

    person: Person
    stack: Stack
    server: RunningServer
    demo: AskingServer
    connection: Connection
    view: ConnectionView
    client: Client = field(default_factory=Client)

    def call(self, tool: str, *, seconds: float = 60.0, **arguments: Any) -> uuid.UUID:
        """Submit a call that nobody waits for."""
        request = CallRequest(
            method="tools/call",
            target=tool,
            params={"name": tool, "arguments": arguments},
            timeout=seconds,
            will_wait=False,
        )

        async def submit() -> uuid.UUID:
            async with closing_loop_objects():
                view = self.view
                made = await tool_calls.submit(self.person.principal, view, request)
                await tick_pipeline().call("PING")  # the ring goes with the same turn
                await tick_pipeline().flush()
                return made.id

        return asyncio.run(submit())

    def get(self, path: str) -> Any:
        return send(self.client, "get", path, self.person)

    def questions(self, call: uuid.UUID | None = None) -> list[dict[str, Any]]:
        path = OPEN if call is None else f"{OPEN}?call={call}"
        found: list[dict[str, Any]] = self.get(path).json()
        return found

    def question(self, call: uuid.UUID | None = None) -> dict[str, Any]:
        """Wait for the one open question."""
        return eventually(lambda: self.questions(call), what="a question is open")[0]

    def answer(self, question: dict[str, Any], body: Any = None) -> Any:
        path = f"{OPEN}/{question['id']}"
        return send(self.client, "post", path, self.person, ACCEPT if body is None else body)

    def row(self, call: uuid.UUID) -> ToolCall:
        return ToolCall.unscoped.get(pk=call)

    def until(self, call: uuid.UUID, status: CallStatus, seconds: float = 10.0) -> ToolCall:
        eventually(lambda: self.row(call).status == status, seconds, what=f"the call is {status}")
        return self.row(call)

    def text(self, call: uuid.UUID) -> Any:
        """Return what the server says it was answered, when the call has succeeded."""
        outcome = outcome_of(self.until(call, CallStatus.SUCCEEDED)).outcome_json
        return json.loads(json.loads(outcome or b"")["result"]["content"][0]["text"])

    @property
    def is_modern(self) -> bool:
        return self.view.era == "modern"

    def finish_page(self) -> None:
        """Let the server say that the page was finished."""
        asyncio.run_coroutine_threadsafe(self.demo.finish_page(), self.server.loop).result(5)

    def sweep(self) -> None:
        reaper.sweep()


@contextmanager
def asking(
    person: Person, kind: Kind, *, consented: Collection[Relay] = (), **preset: Any
) -> Iterator[Asking]:
    """Connect a person to a server that asks; `preset` are fields of an operator's preset."""
    demo = AskingServer()
    with running(kind, demo=demo) as server, running_worker() as stack:
        if preset:
            slug = make_connector(url=server.url, **preset).slug
            row = selectors.connection_for(person.principal, slug)
        else:
            row = add_server(person.principal, server.url)
        row = connections.stored(person.principal, row)
        consents.consent(person.principal, row, dict.fromkeys(consented, True))
        row = stack.connect(person.principal, row)
        yield Asking(
            person=person, stack=stack, server=server, demo=demo, connection=row, view=view_of(row)
        )
