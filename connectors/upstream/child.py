"""The child process of a stdio server: own group, own directory, clean environment, sure end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping

from mcphub.core.errors import UpstreamError

INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TZ", "USER")
"""All that a server may see of our environment: no keys, no addresses, no tokens."""
STOP_SECONDS = 2.0


def clean_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child; exported shell functions are never passed on."""
    kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return {**{k: v for k, v in kept.items() if not v.startswith("()")}, **extra}


def bound_to_parent(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command so that the kernel ends it with the thread that started it (Linux).

    It goes through a short Python program and not `preexec_fn`, which is unsafe beside threads.
    """
    if sys.platform != "linux":
        return command
    return (sys.executable, "-I", "-S", "-c", _BIND, str(os.getpid()), *command)


_BIND = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
if os.getppid() == int(sys.argv[1]):  # else the parent died before
    os.execvp(sys.argv[2], sys.argv[2:])
"""


class Child:
    """One running server process."""

    def __init__(self, process: asyncio.subprocess.Process, directory: str) -> None:
        self.process = process
        self._directory = directory

    @classmethod
    async def start(
        cls, command: tuple[str, ...], environment: Mapping[str, str], line_limit: int
    ) -> Child:
        """Start the command without a shell. Raises UpstreamError (`upstream_unreachable`)."""
        env = clean_environment(environment)
        if not command or shutil.which(command[0], path=env.get("PATH")) is None:
            raise UpstreamError("The server's command does not exist here.", was_sent=False)
        directory = tempfile.mkdtemp(prefix="mcphub-stdio-")
        try:
            process = await asyncio.create_subprocess_exec(
                *bound_to_parent(command),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=env,
                cwd=directory,
                start_new_session=True,
                limit=line_limit,
            )
        except (OSError, ValueError) as exc:
            shutil.rmtree(directory, ignore_errors=True)
            raise UpstreamError("The server's command cannot be started.", was_sent=False) from exc
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        return cls(process, directory)

    async def stop(self) -> None:
        """Close stdin, then SIGTERM and SIGKILL to the group, each when the one before failed."""
        try:
            if self.process.stdin is not None:
                self.process.stdin.close()
            for signum in (None, signal.SIGTERM, signal.SIGKILL):
                if signum is not None:
                    self._signal(signum)
                if await self._has_ended():
                    break
        finally:
            self._signal(signal.SIGKILL)  # what the server left running in its group
            await asyncio.to_thread(shutil.rmtree, self._directory, ignore_errors=True)

    def _signal(self, signum: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signum)

    async def _has_ended(self) -> bool:
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self.process.wait()
        except TimeoutError:
            return False
        return True
