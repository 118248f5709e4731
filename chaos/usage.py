"""What a process of the stack uses, seen from outside."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from bench.processes import resident_kib, stat
from chaos.stack import WORKERS, Stack


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """One sample; `tasks` are those of a worker's event loop, 0 for other processes."""

    at: float
    resident_kib: int
    descriptors: int
    threads: int
    tasks: int
    cpu_seconds: float


def of(stack: Stack, name: str) -> Usage:
    pid = stack.programs[name].pid
    proc = Path(f"/proc/{pid}")
    return Usage(
        at=time.monotonic(),
        resident_kib=resident_kib(pid),
        descriptors=len(list((proc / "fd").iterdir())),
        threads=len(list((proc / "task").iterdir())),
        tasks=tasks_of(stack, name) if name in WORKERS else 0,
        cpu_seconds=stat(pid)[1],
    )


def tasks_of(stack: Stack, worker: str) -> int:
    """Return how many tasks a worker has, by its last life sign; 0 when there is none."""
    redis = stack.redis()
    slot = f"w{worker.removeprefix('worker')}"
    signs = [redis.get(key) for key in redis.scan_iter(f"mcphub:worker:{slot}-*")]
    loads = [json.loads(sign) for sign in signs if sign]
    return max((load["tasks"] for load in loads), default=0)
