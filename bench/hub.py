"""Starts the product the way its user does, and adds servers to it over REST."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bench.wire import Wire

API = "/api/v1"
READY_SECONDS = 120.0
STOP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Hub:
    """One running `mcphub up`: address, API key, pid of the supervisor."""

    url: str
    key: str
    pid: int

    def wire(self, headers: Mapping[str, str] | None = None) -> Wire:
        return Wire(self.url, self.key, headers)


@asynccontextmanager
async def child(*command: str, **options: Any) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run one process until the block ends, then end it and wait for it."""
    process = await asyncio.create_subprocess_exec(*command, **options)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), STOP_SECONDS)
            except TimeoutError:  # such as a server that waits for its open streams
                process.kill()
                await process.wait()


@asynccontextmanager
async def running_hub(*, workers: int = 1) -> AsyncIterator[Hub]:
    """Start the stack in a temporary home; the block gets its address and key."""
    with tempfile.TemporaryDirectory(prefix="mcphub-bench-") as home:
        command = [sys.executable, "-m", "mcphub.cli", "up", "--json", "--port", "0"]
        options = ["--home", home, "--workers", str(workers)]
        async with child(*command, *options, stdout=asyncio.subprocess.PIPE) as process:
            if process.stdout is None:
                raise SystemExit("The hub's output cannot be read.")
            line = await asyncio.wait_for(process.stdout.readline(), READY_SECONDS)
            if not line:
                raise SystemExit("The hub did not start.")
            ready = json.loads(line)
            yield Hub(url=ready["url"], key=ready["apiKey"], pid=ready["pid"])


@asynccontextmanager
async def running_upstream() -> AsyncIterator[tuple[str, int]]:
    """Serve bench/upstream.py on a free loopback port; the block gets (base URL, pid)."""
    port = await free_port()
    command = [sys.executable, "-m", "uvicorn", "bench.upstream:app", "--port", str(port)]
    async with child(*command, "--no-access-log", "--log-level", "warning") as process:
        for _ in range(200):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                break
        yield f"http://127.0.0.1:{port}", process.pid


async def free_port() -> int:
    """Return a loopback port that is free now."""
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return port


async def add_server(wire: Wire, url: str, slug: str) -> None:
    """Add one custom server without authentication."""
    body = {"id": slug, "name": slug, "url": url, "auth": {"type": "none"}}
    status, answer = await wire.ask("POST", f"{API}/servers", body)
    if status != 201:
        raise SystemExit(f"Adding a server answered {status}: {answer[:300]!r}")


async def connect(wire: Wire, slug: str, *, seconds: float = 30.0) -> None:
    """Connect one server and wait until it is connected."""
    status, answer = await wire.ask("POST", f"{API}/servers/{slug}/connect", {})
    deadline = asyncio.get_running_loop().time() + seconds
    while status in {200, 202} and json.loads(answer)["connectionState"] != "connected":
        if asyncio.get_running_loop().time() > deadline:
            break
        await asyncio.sleep(0.02)
        status, answer = await wire.ask("GET", f"{API}/servers/{slug}")
    if status not in {200, 202} or json.loads(answer)["connectionState"] != "connected":
        raise SystemExit(f"{slug} did not connect: {status} {answer[:300]!r}")


async def call(wire: Wire, slug: str, tool: str, arguments: dict[str, Any]) -> bytes:
    """Call one tool, return the raw result; anything but 200 ends the benchmark."""
    path = f"{API}/servers/{slug}/tools/{tool}/call"
    status, answer = await wire.ask("POST", path, {"arguments": arguments})
    if status != 200:
        raise SystemExit(f"{tool} answered {status}: {answer[:300]!r}")
    return answer
