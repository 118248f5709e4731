"""Processes of the stack: started, signalled, started again when they end, as containers are."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

RESTART_SECONDS = 0.3
STOP_SECONDS = 40.0


@dataclass(slots=True, kw_only=True)
class Program:
    """One process and how it is started; `is_wanted` False: it stays ended."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    is_wanted: bool = True
    starts: int = 0

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                list(self.command),
                env=dict(self.environment),
                cwd=self.log.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.starts += 1

    @property
    def pid(self) -> int:
        assert self.process is not None, f"{self.name} was never started"
        return self.process.pid

    def signal(self, number: int) -> None:
        if self.process is not None and self.process.poll() is None:
            os.kill(self.process.pid, number)

    def has_ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""


class Programs:
    """All of them, with the thread that starts again what ended."""

    def __init__(self) -> None:
        self._programs: dict[str, Program] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def __getitem__(self, name: str) -> Program:
        return self._programs[name]

    def names(self) -> list[str]:
        return list(self._programs)

    def add(self, program: Program) -> None:
        with self._lock:
            program.start()
            self._programs[program.name] = program

    def hold(self, name: str) -> None:
        """End one for good with SIGKILL, until `release`."""
        with self._lock:
            self[name].is_wanted = False
            self[name].signal(signal.SIGKILL)

    def release(self, name: str) -> None:
        self[name].is_wanted = True

    def close(self) -> None:
        """End everything: politely, what belongs to us first; then for good."""
        self._stop.set()
        self._thread.join(5)
        deadline = time.monotonic() + STOP_SECONDS
        for program in reversed(list(self._programs.values())):
            program.signal(signal.SIGCONT)
            program.signal(signal.SIGTERM)
        for program in self._programs.values():
            if program.process is not None:
                try:
                    program.process.wait(max(0.1, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    program.process.kill()
                    program.process.wait()

    def _watch(self) -> None:
        while not self._stop.wait(RESTART_SECONDS):
            with self._lock:
                for program in self._programs.values():
                    if program.is_wanted and program.has_ended():
                        program.start()
