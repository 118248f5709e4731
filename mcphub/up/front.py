"""The process that the user sees: starts the supervisor, passes signals on, sweeps up after it.

Two processes, so that the kill of either leaves the other to end the rest.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from types import FrameType

from mcphub.up import processes
from mcphub.up.supervisor import SIGNALS

SWEEP_SECONDS = 10.0


def run(supervise: Callable[[int], int]) -> int:
    """Fork; the child runs `supervise(front)`, this process waits for it. Returns the exit code."""
    processes.adopt_orphans()
    front, held = os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    pid = os.fork()
    if pid == 0:
        os.close(held)
        end_with(supervise, front)
    os.close(front)
    pass_signals_to(pid)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        print(f"mcphub: the supervisor was killed ({name}); ending the rest", file=sys.stderr)  # noqa: T201
    processes.end_adopted(SWEEP_SECONDS)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 1


def pass_signals_to(pid: int) -> None:
    """First Ctrl-C, SIGTERM or SIGHUP: stop in order. Second: stop at once."""
    asked = iter([signal.SIGTERM])

    def forward(_number: int, _frame: FrameType | None) -> None:
        processes.send(pid, next(asked, signal.SIGUSR1))

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, forward)


def end_with(supervise: Callable[[int], int], front: int) -> None:
    """Run the supervisor in this forked process and never return to the caller's code."""
    code = 1
    try:
        code = supervise(front)
    except BaseException:  # noqa: BLE001  (the last frame of a process: show it, then end)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
