"""Programs of others that run on Node.js, installed from the pinned lock on first use."""

from __future__ import annotations

import fcntl
import functools
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent / "node"
MODERN = 22
"""The oldest Node.js that runs the conformance suite, the Inspector and the AI SDK."""
INSTALL_SECONDS = 300


@functools.cache
def install() -> None:
    """Install what the lock pins; skips without Node.js. Of several test runs, one installs."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("Node.js is not installed: what needs it cannot run")
    with (FOLDER / ".installing").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_current():
            subprocess.run(
                ["npm", "ci", "--no-audit", "--no-fund", "--loglevel", "error"],
                cwd=FOLDER,
                check=True,
                capture_output=True,
                timeout=INSTALL_SECONDS,
            )


def is_current() -> bool:
    """Whether what is installed is newer than the lock."""
    marker, wanted = FOLDER / "node_modules" / ".package-lock.json", FOLDER / "package-lock.json"
    return marker.exists() and marker.stat().st_mtime >= wanted.stat().st_mtime


def package(*parts: str) -> Path:
    """Return the path of a file of an installed package."""
    install()
    return FOLDER.joinpath("node_modules", *parts)


@functools.cache
def modern_node() -> str:
    """Return a Node.js of 22 or newer: the one on PATH, or the one that the lock brings."""
    install()
    bundled = sorted(FOLDER.glob("node_modules/node-linux-*/bin/node"))
    for candidate in (shutil.which("node"), *(str(path) for path in bundled)):
        if candidate is not None and version_of(candidate) >= MODERN:
            return candidate
    pytest.skip(f"Node.js {MODERN} is not installed: what needs it cannot run")


def version_of(node: str) -> int:
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    return int(said.lstrip("v").split(".")[0])
