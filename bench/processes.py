"""CPU seconds and resident memory of a process tree, from /proc (Linux)."""

from __future__ import annotations

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PROC = Path("/proc")


def stat(pid: int) -> tuple[int, float]:
    """Return (parent pid, CPU seconds used, ended children included)."""
    fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return int(fields[1]), sum(int(value) for value in fields[11:15]) / TICKS


def tree(root: int) -> list[int]:
    """Return `root` and everything below it."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                children.setdefault(stat(int(entry.name))[0], []).append(int(entry.name))
            except (OSError, IndexError, ValueError):
                continue
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children.get(pid, [])
    return found


def cpu_seconds(root: int) -> float:
    """CPU seconds of the whole tree so far."""
    total = 0.0
    for pid in tree(root):
        try:
            total += stat(pid)[1]
        except OSError:
            continue
    return total


def resident_kib(pid: int) -> int:
    """Resident set of one process, KiB."""
    for line in (PROC / str(pid) / "status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def find(root: int, *words: str) -> list[int]:
    """Return the pids below `root` whose command line has all of `words`."""
    matches = []
    for pid in tree(root):
        try:
            command = (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if all(word in command for word in words):
            matches.append(pid)
    return matches
