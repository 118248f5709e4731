"""A hub of its own for tests that end its processes, and the calls that they are to survive."""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx
import psycopg

from tests.factories import unique
from tests.fakes.sdk_tools import DemoServer
from tests.live.api import Api
from tests.live.stack import RunningHub, running
from tests.waiting import eventually

POSTGRESQL = os.environ.get("MCPHUB_TEST_DATABASE_URL", "")
REDIS = os.environ.get("MCPHUB_TEST_REDIS_URL", "")
WORKER_TTL = "6s"
OPEN = {"queued", "running"}
TERMINAL_SECONDS = 50.0


@contextmanager
def database() -> Iterator[str]:
    """Yield the URL of a new database on the server of the suite, "" for a file of the hub's."""
    if not POSTGRESQL:
        yield ""
        return
    name = f"mcphub_chaos_{os.getpid()}_{secrets.token_hex(3)}"
    with psycopg.connect(POSTGRESQL, autocommit=True) as server:
        server.execute(f'CREATE DATABASE "{name}"')
        try:
            yield urlunsplit(urlsplit(POSTGRESQL)._replace(path=f"/{name}"))
        finally:
            server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Chaos:
    """A hub with two workers and one web process that nobody else uses."""

    hub: RunningHub
    database_url: str

    def holder(self, slug: str) -> str:
        """The worker process ("worker1") that holds the session of a server; "" for none."""
        row = self.first("SELECT held_by FROM connectors_connection WHERE slug = ", slug)
        return f"worker{row[0][1]}" if row and row[0] else ""

    def has_position(self, call: str) -> bool:
        """Whether the ledger knows from where the answer of a call can be resumed."""
        key = call if self.database_url else call.replace("-", "")
        row = self.first("SELECT stream FROM connectors_toolcall WHERE id = ", key)
        return bool(row and row[0])

    def first(self, statement: str, value: str) -> tuple[Any, ...] | None:
        """Return the first row of a query that ends with one parameter."""
        if self.database_url:
            with psycopg.connect(self.database_url) as database:
                return database.execute(f"{statement}%s", [value]).fetchone()
        database_file = sqlite3.connect(self.hub.home / "hub.sqlite3")
        row: tuple[Any, ...] | None = database_file.execute(f"{statement}?", [value]).fetchone()
        database_file.close()
        return row

    def api(self) -> Api:
        return Api(self.hub.client())


@contextmanager
def chaos_hub(home: Path) -> Iterator[Chaos]:
    environment = {"MCPHUB_WORKER_TTL": WORKER_TTL}
    if REDIS:
        environment["MCPHUB_REDIS_URL"] = REDIS
        environment["MCPHUB_REDIS_PREFIX"] = f"chaos{os.getpid()}{secrets.token_hex(3)}"
    with database() as url:
        if url:
            environment["MCPHUB_DATABASE_URL"] = url
        with running(home, "--workers", "2", **environment) as hub:
            yield Chaos(hub=hub, database_url=url)


@dataclass(slots=True, kw_only=True)
class Load:
    """Calls of one server that are counted where they arrive."""

    api: Api
    slug: str
    demo: DemoServer
    threads: ThreadPoolExecutor
    answers: dict[str, Future[httpx.Response | None]] = field(default_factory=dict)

    def send(self, count: int, *, ms: int) -> list[str]:
        """Start calls that their senders wait for; each sleeps `ms`. Returns their keys."""
        keys = [unique("call") for _ in range(count)]
        for key in keys:
            self.answers[key] = self.threads.submit(self.ask, key, ms)
        return keys

    def ask(self, key: str, ms: int) -> httpx.Response | None:
        """Send one call; None when the connection to the hub breaks."""
        try:
            return self.api.call(
                self.slug,
                "sleep",
                {"ms": ms, "callId": key},
                headers={"Idempotency-Key": key},
                timeoutMs=20_000,
            )
        except httpx.TransportError:
            return None

    def until_running(self, keys: Sequence[str]) -> None:
        eventually(lambda: all(self.demo.executions[k] for k in keys), 20.0, "calls are running")

    def answer(self, key: str) -> httpx.Response:
        response = self.answers[key].result(60)
        assert response is not None, "the connection to the hub broke"
        return response

    def codes(self, keys: Sequence[str]) -> set[tuple[int, str]]:
        """(HTTP status, problem code or "") of every answer."""
        return {(a.status_code, a.json().get("code", "")) for a in map(self.answer, keys)}

    def ledger(self) -> list[Mapping[str, Any]]:
        """All calls of this server, when every one of them has ended."""

        def ended() -> list[Mapping[str, Any]]:
            rows: list[Mapping[str, Any]] = self.api.get("/calls", server=self.slug, limit=200)[
                "items"
            ]
            return [] if {row["status"] for row in rows} & OPEN else rows

        return eventually(ended, TERMINAL_SECONDS, "every accepted call is terminal")

    def is_connected(self) -> bool:
        state: str = self.api.server(self.slug)["connectionState"]
        return state == "connected"

    def works_again(self, seconds: float = 40.0) -> None:
        """A new call succeeds, without anybody's help."""

        def succeeds() -> bool:
            try:
                response = self.api.call(self.slug, "echo", {"text": "again"}, timeoutMs=5000)
            except httpx.TransportError:
                return False
            return response.status_code == 200

        eventually(succeeds, seconds, "a new call succeeds")
        eventually(self.is_connected, seconds, "the server is connected")

    def never_twice(self) -> None:
        """No call has been executed more than once."""
        counts = {key: self.demo.executions[key] for key in self.answers}
        assert max(counts.values(), default=0) <= 1, counts
