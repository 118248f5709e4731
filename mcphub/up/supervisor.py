"""Supervisor: one loop that notices signals and deaths, restarts what ended, stops in order."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from mcphub.up import processes
from mcphub.up.errors import StartError, StoppedError
from mcphub.up.home import write_private
from mcphub.up.processes import Child, Command

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP)
IDLE_SECONDS = 5.0
POLL_SECONDS = 0.1
ORPHAN_SECONDS = 5.0


class Supervisor:
    """Owns every child of the hub. SIGTERM: stop in order; SIGUSR1: stop at once.

    `front` is the read end of a pipe whose other end only the front process holds: when that one
    is gone, whatever the reason, the pipe ends and so does the hub.
    """

    def __init__(self, *, front: int, directory: Path, say: Callable[[str], None]) -> None:
        self._front = front
        self._pids_file = directory / "children.json"
        self._say = say
        self._children: dict[str, Child] = {}
        self._jobs: set[int] = set()
        self._orphans: dict[int, float] = {}
        self._is_stopping = False
        self._is_urgent = False
        self._wake, wake_writer = os.pipe()
        for end in (self._wake, wake_writer):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
        for number in (*SIGNALS, signal.SIGCHLD):
            signal.signal(number, self._on_signal)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        processes.adopt_orphans()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        """SIGINT and SIGHUP reach the whole terminal group; the front translates them for us."""
        self._is_stopping = self._is_stopping or number in {signal.SIGTERM, signal.SIGUSR1}
        self._is_urgent = self._is_urgent or number == signal.SIGUSR1

    def add(self, command: Command) -> None:
        """Start a child and keep it running from now on."""
        child = self._children[command.name] = Child(command)
        child.start()
        self._note_pids()

    def run(self, command: Command, seconds: float) -> bytes:
        """Run a program to its end and return what it wrote. Raises StartError past `seconds`."""
        job = processes.start(command, stdout=subprocess.PIPE)
        assert job.stdout is not None
        self._jobs.add(job.pid)
        try:
            self.until(lambda: job.poll() is not None, seconds, f"{command.name} to finish")
            return job.stdout.read()
        finally:
            if job.poll() is None:
                processes.send_group(job.pid, signal.SIGKILL)
                job.wait()
            self._jobs.discard(job.pid)
            job.stdout.close()

    def until(self, is_true: Callable[[], bool], seconds: float, what: str) -> None:
        """Supervise until `is_true`. Raises StartError (too late) or StoppedError (a signal)."""
        deadline = time.monotonic() + seconds
        while not is_true():
            if time.monotonic() >= deadline:
                raise StartError(f"gave up waiting for {what} after {seconds:.0f} seconds")
            self._turn(POLL_SECONDS)
            if self._is_stopping:
                raise StoppedError

    def watch(self) -> None:
        """Supervise until somebody asks to stop."""
        while not self._is_stopping:
            self._turn(IDLE_SECONDS)

    def stop(self, stages: Sequence[str]) -> None:
        """End the children whose names start with each stage's word, one stage after the other."""
        self._is_stopping = True
        for stage in stages:
            names = tuple(stage.split("|"))
            self._stop_stage([c for name, c in self._children.items() if name.startswith(names)])
        processes.end_adopted(0.0 if self._is_urgent else ORPHAN_SECONDS)
        self._pids_file.unlink(missing_ok=True)

    def _stop_stage(self, children: Sequence[Child]) -> None:
        for child in children:
            child.ask_to_end()
        longest = max((child.command.stop_seconds for child in children), default=0.0)
        deadline = time.monotonic() + longest
        while not all(child.is_over() for child in children):
            if self._is_urgent or time.monotonic() >= deadline:
                break
            self._sleep(0.05)
        for child in children:
            child.kill()

    def _turn(self, longest: float) -> None:
        """Wait for a signal, a death or the next restart; then do what is due."""
        waits = [c.restart_at - time.monotonic() for c in self._children.values() if c.pid is None]
        self._sleep(max(0.0, min([longest, *waits])))
        if self._is_stopping:
            return
        for child in self._children.values():
            if how := child.ended():
                self._tell_death(child, how)
            if child.is_due:
                child.start()
                self._note_pids()
        self._end_orphans()

    def _sleep(self, seconds: float) -> None:
        watched = [self._wake, *([] if self._is_stopping else [self._front])]
        ready, _, _ = select.select(watched, [], [], seconds)
        if self._wake in ready:
            os.read(self._wake, 4096)
        if self._front in ready:
            self._is_stopping = True

    def _tell_death(self, child: Child, how: str) -> None:
        name = child.command.name
        if child.failures < processes.FAST_DEATHS:
            self._say(f"{name} ended ({how}); starting it again")
        elif child.failures == processes.FAST_DEATHS:
            self._say(f"{name} keeps ending ({how}): see {child.command.log}; still trying")

    def _end_orphans(self) -> None:
        """End what a dead child left behind: ask first, then make it."""
        started = {child.pid for child in self._children.values() if child.pid is not None}
        now = time.monotonic()
        left = processes.adopted(started | self._jobs)
        for pid in left:
            if pid not in self._orphans:
                processes.send(pid, signal.SIGTERM)
                self._orphans[pid] = now + ORPHAN_SECONDS
            elif now >= self._orphans[pid]:
                processes.send(pid, signal.SIGKILL)
        self._orphans = {pid: at for pid, at in self._orphans.items() if pid in left}

    def _note_pids(self) -> None:
        pids = {name: child.pid for name, child in self._children.items()}
        write_private(self._pids_file, json.dumps(pids))


@contextmanager
def stopping(supervisor: Supervisor, stages: Sequence[str]) -> Iterator[None]:
    """Stop every child when the block ends, however it ends."""
    try:
        yield
    finally:
        supervisor.stop(stages)
