"""One process of the hub in the foreground, for containers and process supervisors.

Everything comes from the environment; `mcphub up` starts the same commands as children.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from mcphub.up import listening

WORKER_THREADS = 8
SCHEDULER = "mcphub.celery:BeatingScheduler"


def web(host: str, port: int) -> int:
    """Serve REST, WebSockets and pages until SIGTERM."""
    _settings_module()
    from mcphub.up import web as process  # noqa: PLC0415  (loads the server)

    process.serve(listening.bind(host, port))
    return 0


def worker(slot: str) -> NoReturn:
    """Become a worker: its sessions, its calls, lifecycle work."""
    slot = slot or os.environ.get("MCPHUB_WORKER_SLOT", "")
    if slot:
        os.environ["MCPHUB_WORKER_SLOT"] = slot
    become("worker", *worker_arguments(slot or "%n"))


def beat() -> NoReturn:
    """Become the clock of the sweeps. One is enough; two do no harm."""
    become("beat", *beat_arguments())


def become(role: str, *arguments: str) -> NoReturn:
    """Replace this process, so that signals of the supervisor reach Celery itself."""
    _settings_module()
    level = os.environ.get("MCPHUB_LOG_LEVEL") or "INFO"
    command = celery_arguments(role, level, *arguments)
    os.execv(sys.executable, [sys.executable, *command])  # noqa: S606  (our own command line)


def celery_arguments(role: str, level: str, *arguments: str) -> tuple[str, ...]:
    """Return what follows the interpreter; -P keeps the working directory off the path."""
    options = ("--app=mcphub.celery:app", role, f"--loglevel={level}", *arguments)
    return ("-P", "-m", "celery", *options)


def worker_arguments(slot: str) -> tuple[str, ...]:
    """Threads, since every worker has one session host; no gossip, since Redis knows who lives."""
    return (
        f"--hostname={slot}@mcphub",
        "--pool=threads",
        f"--concurrency={WORKER_THREADS}",
        "--without-gossip",
        "--without-mingle",
    )


def beat_arguments() -> tuple[str, ...]:
    """No schedule file: every sweep may run again after a restart."""
    return (f"--scheduler={SCHEDULER}", "--pidfile=")


def _settings_module() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcphub.settings")
