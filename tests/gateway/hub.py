"""Web processes of the hub as MCP clients meet them: the real application on loopback ports.

Each runs in a thread with an event loop of its own, so that two of them share nothing but Redis and
the database. The worker, the upstream servers and the member are the suite's usual ones.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from connectors.models import Connection, ToolCall
from connectors.models.tool_call import OPEN_STATUSES
from connectors.queue import lane_writer, tick_pipeline
from connectors.server_spec import Relay
from connectors.services import consents, notices, replies, tool_calls
from gateway import mailbox
from mcphub import asgi
from tenants.principal import MEMBER_SCOPES, Principal
from tests.connectors.session_stack import Stack, add_server, running_worker
from tests.fakes.mcp_servers import Kind, RunningServer, running, serving_app
from tests.fakes.raw_server import RawServer, serving_in_thread
from tests.fakes.relay.server import RelayServer, serving_relay
from tests.fakes.sdk_tools import DemoServer
from tests.world import Person

SECONDS = 15.0
BOTH = "application/json, text/event-stream"
MODERN = "2026-07-28"
ENVELOPE = "io.modelcontextprotocol/"
Answering = Callable[[str, dict[str, Any]], "dict[str, Any] | None"]
"""What a client says to a question: method and params; None: nothing.

A result; of the handshake era `{"error": …}` too.
"""


@contextmanager
def web_process() -> Iterator[str]:
    """Serve the hub until the block ends; yields its base URL."""
    application: Any = asgi.application
    with serving_app(application) as server:
        loop = server.loop
        assert loop is not None
        try:
            yield f"http://127.0.0.1:{server.port}"
        finally:
            asyncio.run_coroutine_threadsafe(_close_loop_objects(), loop).result(SECONDS)


async def _close_loop_objects() -> None:
    for kept in (replies.current, mailbox.current, notices.current):
        found = kept.take()
        if found is not None:
            await found.aclose()
    lane_writer.take()
    pipeline = tick_pipeline.take()
    if pipeline is not None:
        await pipeline.aclose()


@dataclass(kw_only=True)
class Hub:
    """What a test drives: one or more web processes, a worker, and servers of `person`."""

    urls: list[str]
    stack: Stack
    person: Person
    _opened: ExitStack
    _upstreams: ExitStack
    """Ends after the worker, or each would wait for its open streams."""
    servers: dict[str, RunningServer] = field(default_factory=dict)

    def add(
        self,
        slug: str,
        kind: Kind,
        demo: DemoServer | None = None,
        *,
        consented: Collection[Relay] = (),
    ) -> Connection:
        """Run an upstream server and connect the person to it."""
        self.servers[slug] = self._upstreams.enter_context(running(kind, demo=demo))
        row = add_server(self.person.principal, self.servers[slug].url, name=slug)
        assert row.slug == slug
        consents.consent(self.person.principal, row, dict.fromkeys(consented, True))
        return self.stack.connect(self.person.principal, row)

    def add_raw(self, slug: str, server: RawServer) -> Connection:
        """As `add`, for a scripted server."""
        self._upstreams.enter_context(serving_in_thread(server))
        row = add_server(self.person.principal, server.url, name=slug)
        return self.stack.connect(self.person.principal, row)

    def add_relay(
        self,
        slug: str,
        *,
        is_modern: bool,
        person: Person | None = None,
        consented: Collection[Relay] = (),
    ) -> RelayServer:
        """As `add`, for the server that the relay is measured with."""
        server = self._upstreams.enter_context(serving_relay(is_modern=is_modern))
        principal = (person or self.person).principal
        row = add_server(principal, server.url, name=slug)
        consents.consent(principal, row, dict.fromkeys(consented, True))
        self.stack.connect(principal, row)
        return server

    def client(self, person: Person | None = None, *, process: int = 0) -> httpx.Client:
        headers = dict((person or self.person).headers)
        client = httpx.Client(base_url=self.urls[process], headers=headers, timeout=SECONDS)
        return self._opened.enter_context(client)


@contextmanager
def running_hub(person: Person, *, processes: int = 1) -> Iterator[Hub]:
    with ExitStack() as upstreams, ExitStack() as opened:
        stack = opened.enter_context(running_worker())
        urls = [opened.enter_context(web_process()) for _ in range(processes)]
        hub = Hub(urls=urls, stack=stack, person=person, _opened=opened, _upstreams=upstreams)
        try:
            yield hub
        finally:  # a worker does not stop before its calls
            for call in ToolCall.unscoped.filter(status__in=OPEN_STATUSES):
                owner = Principal(
                    tenant_id=call.tenant_id, member_id=call.member_id, scopes=MEMBER_SCOPES
                )
                tool_calls.cancel(owner, call.pk)


def modern_headers(method: str, name: str = "", version: str = MODERN) -> dict[str, str]:
    headers = {"mcp-protocol-version": version, "mcp-method": method, "accept": BOTH}
    return {**headers, "mcp-name": name} if name else headers


def modern_body(
    method: str,
    params: Mapping[str, Any] | None = None,
    *,
    capabilities: Mapping[str, Any] | None = None,
    id: int | str = 1,  # noqa: A002  (as in JSON-RPC)
    version: str = MODERN,
) -> dict[str, Any]:
    meta = {
        f"{ENVELOPE}protocolVersion": version,
        f"{ENVELOPE}clientInfo": {"name": "raw", "version": "1"},
        f"{ENVELOPE}clientCapabilities": dict(capabilities or {}),
    }
    given = dict(params or {})
    given["_meta"] = {**meta, **given.get("_meta", {})}
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": given}


def events_of(text: str) -> list[dict[str, Any]]:
    """Return the messages of a whole stream."""
    lines = [line for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def last_message(answer: httpx.Response) -> dict[str, Any]:
    """Return the response message of an answer, be it JSON or a whole stream."""
    if answer.headers["content-type"] == "text/event-stream":
        return events_of(answer.text)[-1]
    found: dict[str, Any] = answer.json()
    return found


class RawClient(ABC):
    """What the raw clients of both eras have in common."""

    @abstractmethod
    def ask(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the response message."""

    def result(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        found = self.ask(method, params)
        assert "result" in found, found
        result: dict[str, Any] = found["result"]
        return result


@dataclass(kw_only=True)
class Modern(RawClient):
    """A raw client of 2026-07-28 at one endpoint."""

    client: httpx.Client
    path: str = "/mcp"
    capabilities: dict[str, Any] = field(default_factory=dict)

    def post(self, method: str, params: Mapping[str, Any] | None = None) -> httpx.Response:
        given = params or {}
        name = str(given.get("name") or given.get("uri") or given.get("taskId") or "")
        body = modern_body(method, params, capabilities=self.capabilities)
        return self.client.post(self.path, json=body, headers=modern_headers(method, name))

    def ask(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return last_message(self.post(method, params))

    def call_answering(
        self, params: Mapping[str, Any], answer: Answering, *, via: Modern | None = None
    ) -> dict[str, Any]:
        """Call a tool and answer what is asked by retries; returns the last response message."""
        found = self.ask("tools/call", params)
        for _ in range(5):
            required = found.get("result", {})
            if required.get("resultType") != "input_required":
                break
            responses = {
                key: answer(asked["method"], asked["params"])
                for key, asked in required["inputRequests"].items()
            }
            given = {"inputResponses": responses, "requestState": required["requestState"]}
            found = (via or self).ask("tools/call", {**params, **given})
        return found


@dataclass(kw_only=True)
class Legacy(RawClient):
    """A raw client of the handshake era at one endpoint; `open` makes the session."""

    client: httpx.Client
    path: str = "/mcp"
    version: str = "2025-11-25"
    capabilities: dict[str, Any] = field(default_factory=dict)
    session: str = ""
    opened: dict[str, Any] = field(default_factory=dict)
    _last_id: int = 0

    def open(self) -> Legacy:
        params = {
            "protocolVersion": self.version,
            "capabilities": self.capabilities,
            "clientInfo": {"name": "raw", "version": "1"},
        }
        answer = self.post(self.request("initialize", params))
        assert answer.status_code == 200, answer.text
        self.session = answer.headers["mcp-session-id"]
        self.opened = answer.json()["result"]
        assert self.notify("notifications/initialized").status_code == 202
        return self

    @property
    def headers(self) -> dict[str, str]:
        headers = {"accept": BOTH}
        if self.session:
            headers |= {"mcp-session-id": self.session, "mcp-protocol-version": self.version}
        return headers

    def request(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method}
        return {**message, "params": params} if params is not None else message

    def post(self, message: Any) -> httpx.Response:
        return self.client.post(self.path, json=message, headers=self.headers)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> httpx.Response:
        return self.post({"jsonrpc": "2.0", "method": method, "params": params or {}})

    def ask(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return last_message(self.post(self.request(method, params)))

    def call_answering(
        self,
        params: Mapping[str, Any],
        answer: Answering,
        *,
        via: Legacy | None = None,
        events: list[dict[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """Call a tool and answer what is asked on its stream; returns the last response message."""
        body = self.request("tools/call", params)
        with self.client.stream("POST", self.path, json=body, headers=self.headers) as stream:
            if stream.headers["content-type"] != "text/event-stream":
                found: dict[str, Any] = json.loads(stream.read())
                return found
            for line in stream.iter_lines():
                message = json.loads(line[6:]) if line.startswith("data: ") else {}
                if events is not None and message:
                    events.append(message)
                if "id" in message and "method" in message:
                    result = answer(message["method"], message.get("params", {}))
                    if result is not None:
                        told = result if "error" in result else {"result": result}
                        reply = {"jsonrpc": "2.0", "id": message["id"], **told}
                        assert (via or self).post(reply).status_code == 202
                elif message.get("id") == body["id"]:
                    return message
        raise AssertionError("the stream ended without a response")
