"""Servers that fail, lie, flood or refuse: R10, R13 to R19."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from chaos.load import Answer, ask
from chaos.proxy import Mode
from chaos.stack import Stack
from chaos.verdict import run
from tests.fakes.hostile import Hostile
from tests.fakes.mcp_servers import Kind
from tests.fakes.mcp_servers import running as serving
from tests.fakes.raw_server import RawServer, Request, Wire, event, note, serving_in_thread
from tests.fakes.sdk_tools import DemoServer
from tests.live.api import Api
from tests.waiting import eventually

GOOD = 19
DEADLINE_MS = 1500
SLACK = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A raw server that the stack is connected to."""

    stack: Stack
    api: Api
    slug: str

    def call(self, tool: str, timeout_ms: int = 10_000) -> Answer:
        return ask(lambda: self.api.call(self.slug, tool, timeoutMs=timeout_ms))

    def state(self) -> str:
        return str(self.api.server(self.slug)["connectionState"])

    def connect(self) -> None:
        self.api.http.post(f"/api/v1/servers/{self.slug}/connect", json={})


@contextmanager
def site(stack: Stack, server: RawServer, *, is_connected: bool = True) -> Iterator[Site]:
    """Serve it, add it, connect to it; removed at the end."""
    api, slug = stack.api("web2"), f"raw-{secrets.token_hex(4)}"
    with serving_in_thread(server):
        api.add_server(slug, server.url)
        found = Site(stack=stack, api=api, slug=slug)
        if is_connected:
            assert api.connect(slug)["connectionState"] == "connected"
        yield found
        api.http.delete(f"/api/v1/servers/{slug}")


def hostile() -> Hostile:
    return Hostile(elsewhere="http://127.0.0.1:1/mcp")


@run("R10", "one bad answer among 19 good ones on a session: the 19 succeed", is_quick=True)
def one_bad(stack: Stack, _rounds: int) -> str:
    bad = ("reset", "garbage", "big_body", "other_id", "invalid_json")
    server = hostile()
    codes = []
    with site(stack, server) as here, ThreadPoolExecutor(GOOD + 1) as threads:
        for name in bad:
            asked = threads.submit(here.call, name, DEADLINE_MS)
            good = list(threads.map(here.call, ["good"] * GOOD))
            assert all(answer.status == 200 for answer in good), f"{name}: {good}"
            codes.append(asked.result().code)
        assert server.counts["POST initialize"] == 1, "the session was opened again"
    return f"{len(bad)} times {GOOD} good calls; bad ones: {', '.join(codes)}"


@run("R13", "server restarts (port closed 5 s): attempts with back-off, connected ≤ 20 s")
def restart_server(stack: Stack, _rounds: int) -> str:
    api, slug = stack.api(), f"re-{secrets.token_hex(4)}"
    demo = DemoServer()
    with serving(Kind.LEGACY, demo=demo) as server:
        port = int(server.url.split(":")[2].split("/", maxsplit=1)[0])
        link = stack.proxy.link(f"upstream {slug}", "127.0.0.1", port)
        api.connected(slug, f"http://127.0.0.1:{link.port}/mcp")
        stack.proxy.become(Mode.DOWN, link.name)
        down = ask(lambda: api.call(slug, "echo", {"text": "down"}, timeoutMs=2000))
        assert down.code == "upstream_unreachable", down
        api.http.post(f"/api/v1/servers/{slug}/disconnect", json={})
        api.http.post(f"/api/v1/servers/{slug}/connect", json={})
        eventually(lambda: bool(api.server(slug)["lastError"]), 10.0, "an attempt has failed")
        assert api.server(slug)["connectionState"] == "connecting"
        pause = time.monotonic() + 5.0
        eventually(lambda: time.monotonic() > pause, 6.0)
        stack.proxy.become(Mode.PASS, link.name)
        started = time.monotonic()
        eventually(
            lambda: api.server(slug)["connectionState"] == "connected", 20.0, "connected again"
        )
        took = time.monotonic() - started
        assert api.text(slug, "echo", {"text": "up"}) == "up"
        kinds = [step["kind"] for step in api.get(f"/servers/{slug}/timeline")]
        api.http.delete(f"/api/v1/servers/{slug}")
    return f"connected {took:.1f} s after the server; {kinds.count('failed')} failed attempts"


def is_connected(api: Api, slug: str) -> bool:
    return bool(api.server(slug)["connectionState"] == "connected")


class Forgetful(RawServer):
    """Answers 404 to everything of a session that it has dropped."""

    epoch = 1
    calls = 0

    async def on_initialize(self, request: Request, wire: Wire) -> None:
        type(self).session_id = f"session-{self.epoch}"
        await super().on_initialize(request, wire)

    async def serve(self, request: Request, wire: Wire) -> None:
        known = request.headers.get("mcp-session-id", f"session-{self.epoch}")
        if known != f"session-{self.epoch}":
            await wire.answer(status=404, content_type=None)
            return
        await super().serve(request, wire)


@run("R14", "session lost (404): opened again once, calls succeed afterwards", is_quick=True)
def lose_session(stack: Stack, _rounds: int) -> str:
    server = Forgetful()
    with site(stack, server) as here:
        assert here.call("echo").status == 200
        server.epoch += 1
        first = here.call("echo")
        eventually(lambda: here.call("echo").status == 200, 10.0, "calls succeed again")
        opened = server.counts["POST initialize"]
        assert opened == 2, f"initialize was sent {opened} times"
    return f"the call that met the 404: {first.code or first.status}; 2 openings in all"


@run("R15", "hang and slow drip: the call ends at its deadline, the next one works", is_quick=True)
def drip(stack: Stack, _rounds: int) -> str:
    names = ("hang", "drip_headers", "drip_body", "drip_comments")
    with site(stack, hostile()) as here, ThreadPoolExecutor(len(names)) as threads:
        answers = list(threads.map(here.call, names, [DEADLINE_MS] * len(names)))
        for name, answer in zip(names, answers, strict=True):
            assert answer.code == "timeout", f"{name}: {answer}"
            late = answer.seconds - DEADLINE_MS / 1000
            assert -0.1 <= late <= SLACK, f"{name} ended {late:+.1f} s from its deadline"
        assert here.call("good").status == 200
    latest = max(answer.seconds for answer in answers) - DEADLINE_MS / 1000
    return f"{len(names)} kinds, at most {latest:.2f} s after the deadline"


@run(
    "R16",
    "garbage, broken JSON, wrong id, a page: that call fails ≤ 1 s, the next works",
    is_quick=True,
)
def garbage(stack: Stack, _rounds: int) -> str:
    names = ("garbage", "invalid_json", "other_id", "web_page", "redirect", "gzip_bomb")
    codes = {}
    server = hostile()
    with site(stack, server) as here:
        for name in names:
            answer = here.call(name)
            assert answer.status >= 400, f"{name}: {answer}"
            assert answer.seconds <= 1.0 + SLACK, f"{name} took {answer.seconds:.1f} s"
            codes[name] = answer.code
            assert here.call("good").status == 200, f"after {name}"
        assert server.counts["POST initialize"] == 1
    return ", ".join(f"{name}: {code}" for name, code in codes.items())


@run("R17", "20,000 notifications during a call: its result ≤ 10 s, neighbours go on")
def flood(stack: Stack, _rounds: int) -> str:
    with site(stack, hostile()) as here, ThreadPoolExecutor(2) as threads:
        asked = threads.submit(here.call, "flood", 20_000)
        good = max(here.call("good").seconds for _ in range(10))
        answer = asked.result()
        assert answer.status == 200, answer
        assert answer.seconds <= 10.0, f"{answer.seconds:.1f} s"
    return f"result after {answer.seconds:.1f} s; neighbours ≤ {good:.2f} s meanwhile"


@dataclass
class Restless(RawServer):
    """Keeps a stream open and says over and over that its tools have changed."""

    lists: list[float] = field(default_factory=list)
    burst: threading.Event = field(default_factory=threading.Event)

    async def on_get(self, request: Request, wire: Wire) -> None:
        await wire.open_stream()
        while not self.burst.is_set():
            if await wire.until_gone(0.1):
                return
        one = event(note("notifications/tools/list_changed"))
        for _ in range(100):
            await wire.send(one * 5)
            await asyncio.sleep(0.05)
        await wire.until_gone()

    async def on_list_tools(self, request: Request, wire: Wire) -> None:
        self.lists.append(time.monotonic())
        await super().on_list_tools(request, wire)


@run("R18", "500 list_changed in 5 s: at most one list read per 2 s")
def restless(stack: Stack, _rounds: int) -> str:
    server = Restless()
    with site(stack, server) as here:
        eventually(lambda: server.counts["GET"] > 0, 10.0, "the stream is open")
        before = len(server.lists)
        server.burst.set()
        pause = time.monotonic() + 7.0
        eventually(lambda: time.monotonic() > pause, 8.0)
        reads = len(server.lists) - before
        assert here.call("echo").status == 200
        streams = server.counts["GET"]
        assert 1 <= reads <= 5, f"{reads} lists were read"
    return f"{reads} lists read, {streams} streams opened"


@dataclass
class Busy(RawServer):
    """Refuses to be opened until `until`, with how long to wait."""

    status: int = 429
    wait: int = 7
    until: float = 0.0
    asked: list[float] = field(default_factory=list)

    def was_asked(self) -> bool:
        return bool(self.asked)

    async def serve(self, request: Request, wire: Wire) -> None:
        if time.monotonic() < self.until:
            self.asked.append(time.monotonic())
            await wire.answer(status=self.status, headers=[("Retry-After", str(self.wait))])
            return
        await super().serve(request, wire)


@run(
    "R19",
    "429 and 503 with Retry-After 7: next attempt ≥ 7 s later, by every connection",
    is_quick=True,
)
def busy(stack: Stack, _rounds: int) -> str:
    gaps: Counter[str] = Counter()
    shown = []
    for status in (429, 503):
        server = Busy(status=status)
        with site(stack, server, is_connected=False) as here:
            other = f"{here.slug}-b"
            here.api.add_server(other, server.url)
            server.until = time.monotonic() + 6.0
            here.connect()
            eventually(server.was_asked, 10.0, "it is asked")
            here.api.http.post(f"/api/v1/servers/{other}/connect", json={})
            for slug in (here.slug, other):
                eventually(partial(is_connected, here.api, slug), 30.0, f"{slug} is connected")
            asked = server.asked
            assert len(asked) == 1, f"asked {len(asked)} times while it was to be left alone"
            gaps[str(status)] = len(asked)
            shown.append(round(asked[-1] - asked[0], 1))
            assert asked[-1] - asked[0] < 2.0, f"asked again after {asked[-1] - asked[0]:.1f} s"
            here.api.http.delete(f"/api/v1/servers/{other}")
    return f"requests while refused: {dict(gaps)}, none later than {max(shown)} s after the first"
