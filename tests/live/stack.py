"""RunningHub: `mcphub up --json` as a child of the test process, with what tests ask about it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.live.process_tree import descendants, living
from tests.waiting import eventually

START_SECONDS = 120.0
STOP_SECONDS = 45.0
LOG_TAIL = 4000


@dataclass(frozen=True, slots=True)
class Ready:
    """The line that `mcphub up --json` prints."""

    url: str
    api_key: str
    admin_url: str
    mcp_url: str
    pid: int


@dataclass(slots=True)
class RunningHub:
    """One hub; `pids()` names its children as they are now."""

    home: Path
    process: subprocess.Popen[str]
    ready: Ready
    clients: list[httpx.Client] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.ready.url

    def pids(self) -> dict[str, int | None]:
        pids: dict[str, int | None] = json.loads((self.home / "children.json").read_text())
        return pids

    def pid(self, name: str) -> int:
        """Process id of a child ("web1", "worker2", "beat", "demo", "valkey") while it runs."""
        return eventually(lambda: self.pids().get(name), 20.0, f"{name} has a process") or 0

    def kill(self, name: str, number: int = signal.SIGKILL) -> int:
        """Signal one child; returns the id that it had."""
        pid = self.pid(name)
        os.kill(pid, number)
        return pid

    def tree(self) -> set[int]:
        """Every process of this hub, the front included."""
        return {self.process.pid} | descendants(self.process.pid)

    def client(self, api_key: str | None = None, **headers: str) -> httpx.Client:
        """Return an HTTP client with a credential; it is closed with the hub."""
        key = self.ready.api_key if api_key is None else api_key
        headers = {"Authorization": f"Bearer {key}", **headers}
        client = httpx.Client(base_url=self.url, headers=headers, timeout=70.0, trust_env=False)
        self.clients.append(client)
        return client

    def async_client(self, api_key: str | None = None) -> httpx.AsyncClient:
        """Return an async client for many calls at once; the caller closes it."""
        headers = {"Authorization": f"Bearer {api_key or self.ready.api_key}"}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        return httpx.AsyncClient(
            base_url=self.url, headers=headers, timeout=70.0, trust_env=False, limits=limits
        )

    def is_ready(self) -> bool:
        """Whether every part is there; `/readyz` answers 200 as long as something is served."""
        try:
            answer = httpx.get(f"{self.url}/readyz", timeout=5.0, trust_env=False)
        except httpx.HTTPError:
            return False
        return answer.status_code == 200 and answer.json()["status"] == "ok"

    def is_live(self) -> bool:
        return self._status("/livez") == 200

    def _status(self, path: str) -> int:
        try:
            return httpx.get(f"{self.url}{path}", timeout=5.0, trust_env=False).status_code
        except httpx.HTTPError:
            return 0

    def logs(self) -> str:
        """The end of every log file, for the report of a failed test."""
        parts = [
            f"--- {path.name}\n{path.read_text(errors='replace')[-LOG_TAIL:]}"
            for path in sorted((self.home / "logs").glob("*.log"))
        ]
        return "\n".join(parts)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Signal the front process and wait for everything below it to be gone."""
        tree = self.tree()
        for client in self.clients:
            client.close()
        self.process.send_signal(number)
        code = self.process.wait(STOP_SECONDS)
        eventually(lambda: not living(tree), STOP_SECONDS, "every process of the hub ends")
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        return code


def environment(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment without anything of the suite's own hub settings.

    The suite signs in more often than a person does.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("MCPHUB_") and name != "DJANGO_SETTINGS_MODULE"
    }
    return {**kept, "MCPHUB_SIGN_INS_PER_MINUTE": "1000", **overrides}


def command(home: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "mcphub.cli", "up", "--home", str(home), *arguments]


def refused(home: Path, *arguments: str, **overrides: str) -> subprocess.CompletedProcess[str]:
    """Run a start that is expected to fail to its end."""
    return subprocess.run(
        command(home, *arguments),
        env=environment(overrides),
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
    )


@contextmanager
def running(home: Path, *arguments: str, **overrides: str) -> Iterator[RunningHub]:
    """Start a hub on a free port, wait for its line, stop it at the end."""
    process = subprocess.Popen(
        command(home, "--port", "0", "--json", *arguments),
        env=environment(overrides),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = first_line(process)
    except BaseException:
        process.terminate()
        process.communicate(timeout=STOP_SECONDS)
        raise
    values = json.loads(line)
    ready = Ready(
        url=values["url"],
        api_key=values["apiKey"],
        admin_url=values["adminUrl"],
        mcp_url=values["mcpUrl"],
        pid=values["pid"],
    )
    hub = RunningHub(home=home, process=process, ready=ready)
    try:
        yield hub
    finally:
        hub.stop()


def first_line(process: subprocess.Popen[str]) -> str:
    """Return the first line of output; fails with what was said instead."""
    assert process.stdout is not None
    assert process.stderr is not None
    deadline = time.monotonic() + START_SECONDS
    readable, _, _ = select.select([process.stdout], [], [], deadline - time.monotonic())
    line = process.stdout.readline() if readable else ""
    if not line:
        process.terminate()
        raise AssertionError(f"the hub did not start: {process.communicate()[1]}")
    return line
