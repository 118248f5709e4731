"""Servers that nobody here wrote: the reference "everything" server, run by Node.js."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import eventually

FOLDER = Path(__file__).resolve().parents[1] / "node"
PROGRAM = (
    FOLDER / "node_modules" / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
)


def installed() -> Path:
    """Return the program, installed from the pinned lock on first use; skips without Node.js."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("Node.js is not installed: the reference servers cannot run")
    if not PROGRAM.exists():
        subprocess.run(
            ["npm", "ci", "--no-audit", "--no-fund", "--loglevel", "error"],
            cwd=FOLDER,
            check=True,
            capture_output=True,
            timeout=300,
        )
    return PROGRAM


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def everything(transport: str) -> Iterator[str]:
    """Run the reference server over "streamableHttp" or "sse"; yields its URL."""
    port = free_port()
    process = subprocess.Popen(
        ["node", str(installed()), transport],
        env={**os.environ, "PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def answers() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        eventually(answers, 30.0, f"the reference server listens over {transport}")
        yield f"http://127.0.0.1:{port}/{'mcp' if transport == 'streamableHttp' else 'sse'}"
    finally:
        process.kill()
        process.wait()
