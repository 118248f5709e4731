"""One child process from the parent's side: start it, ask it, kill it when it does not answer."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 20.0
READ_BYTES = 64 << 10


class ChildLostError(Exception):
    """The child ended, or was ended, before it answered."""


class Child:
    """A running child; used by one thread at a time."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "connectors.argument_check.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PYTHONPATH": str(ROOT)},  # nothing else: the hub's environment holds keys
            cwd="/",
            start_new_session=True,
            bufsize=0,
        )
        self._read_line(START_SECONDS)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, question: bytes, seconds: float) -> bytes:
        """Return the child's line. Raises ChildLostError; the child is then gone."""
        assert self._process.stdin is not None
        try:
            left = memoryview(question)
            while left:
                left = left[self._process.stdin.write(left) :]
        except OSError as exc:
            self.kill()
            raise ChildLostError from exc
        return self._read_line(seconds)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _read_line(self, seconds: float) -> bytes:
        assert self._process.stdout is not None
        number = self._process.stdout.fileno()
        poll = select.poll()
        poll.register(number, select.POLLIN)
        until = time.monotonic() + seconds
        line = b""
        while not line.endswith(b"\n"):
            milliseconds = (until - time.monotonic()) * 1000
            part = b""
            if milliseconds > 0 and poll.poll(milliseconds):
                part = os.read(number, READ_BYTES)
            if not part:
                self.kill()
                raise ChildLostError
            line += part
        return line
