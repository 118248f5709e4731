"""Load: calls of one server through both web processes, counted where they are executed."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx

from chaos.stack import WEBS, Stack
from tests.fakes.mcp_servers import Kind
from tests.fakes.mcp_servers import running as serving
from tests.live.api import Api
from tests.waiting import eventually

THREADS = 64
TERMINAL_SECONDS = 60.0
"""Deadline of the longest call (30 s) and 30 s: guarantee G2."""
REFUSED = frozenset({"unavailable", "busy", "no_worker"})
OPEN = ("queued", "claimed", "sent", "input_required")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a caller got; status 0: the connection broke. `seconds` is how long it took."""

    status: int
    code: str
    seconds: float
    text: str = ""
    retry_after: str = ""

    @property
    def is_accepted(self) -> bool:
        """Whether the hub took the call: it answered with an end of it, or with its address."""
        return self.status in {200, 202} or self.code not in {"", *REFUSED}


@dataclass(slots=True, kw_only=True)
class Load:
    """One server, connected; every call has a key that is counted upstream."""

    stack: Stack
    apis: Sequence[Api]
    slug: str
    executions: Mapping[str, int]
    threads: ThreadPoolExecutor
    answers: dict[str, Future[Answer]] = field(default_factory=dict)

    def send(self, count: int, *, ms: int, timeout_ms: int = 20_000) -> list[str]:
        """Start calls that sleep `ms` upstream, spread over the web processes."""
        keys = [secrets.token_hex(6) for _ in range(count)]
        for number, key in enumerate(keys):
            api = self.apis[number % len(self.apis)]
            self.answers[key] = self.threads.submit(self.ask, api, key, ms, timeout_ms)
        return keys

    def ask(self, api: Api, key: str, ms: int, timeout_ms: int = 20_000) -> Answer:
        arguments = {"ms": ms, "callId": key}
        return ask(lambda: api.call(self.slug, "sleep", arguments, timeoutMs=timeout_ms))

    def send_later(self, count: int, *, ms: int, timeout_ms: int = 30_000) -> list[str]:
        """Submit calls that nobody waits for; returns the keys of those that were accepted."""
        keys = [secrets.token_hex(6) for _ in range(count)]

        def submit(number: int, key: str) -> bool:
            api = self.apis[number % len(self.apis)]
            arguments = {"ms": ms, "callId": key}
            prefer = {"Prefer": "respond-async"}
            answer = ask(
                lambda: api.call(
                    self.slug, "sleep", arguments, timeoutMs=timeout_ms, headers=prefer
                )
            )
            return answer.status == 202

        took = list(self.threads.map(submit, range(count), keys))
        return [key for key, is_accepted in zip(keys, took, strict=True) if is_accepted]

    def probe(self, timeout_ms: int = 5000) -> Answer:
        """One short call through each web process in turn; the worst answer counts."""
        key = secrets.token_hex(6)
        answers = [self.ask(api, f"{key}{n}", 1, timeout_ms) for n, api in enumerate(self.apis)]
        return max(answers, key=lambda answer: (answer.status != 200, answer.seconds))

    def until_running(self, keys: Sequence[str]) -> None:
        eventually(lambda: all(self.executions[key] for key in keys), 20.0, "calls are running")

    def ends(self, keys: Sequence[str]) -> Counter[str]:
        """Count the answers as "200" or their problem code; "broken" for a lost connection."""
        found: Counter[str] = Counter()
        for key in keys:
            answer = self.answers[key].result(90)
            found[answer.code or str(answer.status or "broken")] += 1
        return found

    def ledger(self) -> Counter[str]:
        """Return how many calls of this server are in which status, once every one has ended."""
        statement = "SELECT status, count(*) FROM connectors_toolcall WHERE server = %s GROUP BY 1"

        def ended() -> Counter[str] | None:
            found = Counter(dict(self.stack.sql(statement, self.slug)))
            return None if any(found[status] for status in OPEN) else found or Counter({"none": 1})

        found = eventually(ended, TERMINAL_SECONDS, "every accepted call is terminal (I2)")
        assert found is not None
        return found

    def works_again(self, seconds: float = 40.0) -> float:
        """Wait for a new call to succeed through every web process; how long that took."""
        started = time.monotonic()
        eventually(lambda: self.probe().status == 200, seconds, "a new call succeeds")
        return time.monotonic() - started

    def never_twice(self) -> None:
        """I1: no call has been executed more than once."""
        twice = {
            key: count for key, count in self.executions.items() if count > 1 and key != "sleep"
        }
        assert not twice, f"executed more than once: {twice}"

    def sound(self) -> Counter[str]:
        """I1, I2, I3 together; returns the ledger."""
        found = self.ledger()
        self.never_twice()
        return found


def ask(call: Callable[[], httpx.Response]) -> Answer:
    """Make one call, timed."""
    started = time.monotonic()
    try:
        response = call()
    except httpx.TransportError:
        return Answer(0, "", time.monotonic() - started)
    seconds = time.monotonic() - started
    body: Any = {}
    if response.headers.get("content-type", "").startswith("application/"):
        body = response.json()
    code = body.get("code", "") if response.status_code >= 400 else ""
    content = body.get("content") or [{}]
    return Answer(
        response.status_code,
        code,
        seconds,
        str(content[0].get("text", "")),
        response.headers.get("Retry-After", ""),
    )


@contextmanager
def loaded(
    stack: Stack, kind: Kind = Kind.DUAL, *, key: str = "", is_behind_proxy: bool = False
) -> Iterator[Load]:
    """Serve an upstream, connect to it, drive it; the server is removed at the end.

    One behind the proxy is reached by a link whose name ends with ">server".
    """
    slug = f"up-{secrets.token_hex(4)}"
    apis = [stack.api(web, key) for web in WEBS]
    with serving(kind) as server, ThreadPoolExecutor(THREADS) as threads:
        url = server.url
        if is_behind_proxy:
            parts = urlsplit(url)
            link = stack.proxy.link(f"{slug}>server", "127.0.0.1", parts.port or 80)
            url = urlunsplit(parts._replace(netloc=f"127.0.0.1:{link.port}"))
        apis[0].connected(slug, url)
        yield Load(
            stack=stack,
            apis=apis,
            slug=slug,
            executions=server.demo.executions,
            threads=threads,
        )
        apis[0].http.delete(f"/api/v1/servers/{slug}")
