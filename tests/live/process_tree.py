"""What runs below a process, read from /proc (the tests that need it run on Linux)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def descendants(root: int) -> set[int]:
    """Every living process below `root`."""
    parents = {pid: parent for pid, parent, _ in table()}
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {root}


def children(parent: int) -> set[int]:
    """The processes that `parent` has started itself."""
    return {pid for pid, above, _ in table() if above == parent}


def living(pids: set[int]) -> set[int]:
    """Those of `pids` that still run; a zombie does not."""
    return {pid for pid, _, state in table() if state != "Z"} & pids


def table() -> list[tuple[int, int, str]]:
    """All processes as (pid, parent, state letter)."""
    rows = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent, *_ = path.read_text().rpartition(")")[2].split()
            rows.append((int(path.parent.name), int(parent), state))
    return rows
