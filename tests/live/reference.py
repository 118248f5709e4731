"""Servers that nobody here wrote: the reference "everything" server, run by Node.js."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.node_tools import package
from tests.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]


def installed() -> Path:
    """Return the program, installed from the pinned lock on first use; skips without Node.js."""
    return package("@modelcontextprotocol", "server-everything", "dist", "index.js")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def everything(transport: str) -> Iterator[str]:
    """Run the reference server over "streamableHttp" or "sse"; yields its URL."""
    port = free_port()
    command = ["node", str(installed()), transport]
    path = "mcp" if transport == "streamableHttp" else "sse"
    with listening(command, port, env={**os.environ, "PORT": str(port)}):
        yield f"http://127.0.0.1:{port}/{path}"


@contextmanager
def conformance_server(era: str) -> Iterator[str]:
    """Run the server whose names the official suite calls, of one era; yields its URL."""
    port = free_port()
    command = [sys.executable, "-m", "tests.fakes.conformance.server", str(port), era]
    with listening(command, port):
        yield f"http://localhost:{port}/mcp"


@contextmanager
def listening(
    command: Sequence[str], port: int, env: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Run a server in a process of its own from when it listens until the block ends."""
    process = subprocess.Popen(
        command, env=env, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    def answers() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        eventually(answers, 30.0, f"{command[1]} listens")
        yield
    finally:
        process.kill()
        process.wait()
