"""Starting and ending operating system processes so that none of them outlives the hub."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
IS_LINUX = sys.platform == "linux"
LIBC = ctypes.CDLL(None, use_errno=True) if IS_LINUX else None
FAST_DEATHS = 5
SETTLED_SECONDS = 30.0
DELAY_FIRST = 0.2
DELAY_MAX = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One child: what to run, and how long it may take to end when it is asked to."""

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path
    directory: Path
    descriptors: tuple[int, ...] = ()
    stop_seconds: float = 5.0


def adopt_orphans() -> None:
    """Let processes whose parent died become children of this one (Linux), to be seen."""
    if LIBC is not None:
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def adopted(known: Collection[int]) -> list[int]:
    """Return the children of this process that it did not start itself; reaps those that ended."""
    found: list[int] = []
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError, ValueError):
            found += [pid for pid in map(int, path.read_text().split()) if pid not in known]
    return [pid for pid in found if not has_ended(pid)]


def has_ended(pid: int) -> bool:
    """Whether a child of this process is over; takes its exit status, so ask once."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def end_adopted(seconds: float) -> None:
    """End every adopted process: politely at first, for good after `seconds`."""
    deadline = time.monotonic() + seconds
    asked: set[int] = set()
    while left := adopted(()):
        number = signal.SIGTERM if time.monotonic() < deadline else signal.SIGKILL
        for pid in left:
            if number == signal.SIGKILL or pid not in asked:
                send(pid, number)
                asked.add(pid)
        time.sleep(0.02)


def send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def send_group(pid: int, number: int) -> None:
    """Signal what is left of the process group that a child was the leader of."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def die_with_parent() -> Callable[[], None]:
    """Return what a child runs before its program: end when the supervisor ends, anyhow."""
    parent = os.getpid()

    def arm() -> None:
        if LIBC is not None:
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return arm


def start(command: Command, *, stdout: int | None = None) -> subprocess.Popen[bytes]:
    """Start the program as leader of its own session, its output appended to its log."""
    with command.log.open("ab") as log:
        return subprocess.Popen(  # noqa: S603  (our own command lines)
            command.arguments,
            env=dict(command.environment),
            cwd=command.directory,
            stdin=subprocess.DEVNULL,
            stdout=log if stdout is None else stdout,
            stderr=log,
            pass_fds=command.descriptors,
            start_new_session=True,
            preexec_fn=die_with_parent(),  # noqa: PLW1509  (the supervisor has no threads)
        )


class Child:
    """A command that is started again whenever it ends."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.failures = 0
        self.restart_at = 0.0
        self.started_at = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        self.started_at = time.monotonic()
        self._process = start(self.command)

    def ended(self) -> str | None:
        """Return how it ended ("exit code 1", "signal 9") if that is new; plan the restart."""
        if self._process is None or (code := self._process.poll()) is None:
            return None
        send_group(self._process.pid, signal.SIGKILL)
        self._process = None
        is_settled = time.monotonic() - self.started_at >= SETTLED_SECONDS
        self.failures = 1 if is_settled else self.failures + 1
        delay = min(DELAY_MAX, DELAY_FIRST * 2 ** (self.failures - 1))
        self.restart_at = time.monotonic() + delay
        return f"exit code {code}" if code >= 0 else f"signal {-code}"

    @property
    def is_due(self) -> bool:
        return self._process is None and time.monotonic() >= self.restart_at

    def ask_to_end(self, number: int = signal.SIGTERM) -> None:
        if self._process is not None and self._process.poll() is None:
            send(self._process.pid, number)

    def is_over(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def kill(self) -> None:
        """End the whole process group at once and take the exit status."""
        if self._process is not None:
            send_group(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
