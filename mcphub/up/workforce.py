"""`mcphub workers`: who lives, since when, how busy, and which connections each one holds."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from django.db.models import Count

from connectors import queue
from connectors.models import Connection
from connectors.queue import WorkerLoad
from connectors.states import State

HEAD = f"{'worker':<32} {'up':>8} {'calls':>6} {'sessions':>8} {'executed':>9}  connections"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One worker with the connections that are stored as its own, by state."""

    load: WorkerLoad
    connections: Mapping[str, int]
    is_alive: bool = True

    @property
    def slot(self) -> str:
        return self.load.worker.rpartition("-")[0]


def survey(slot: str = "") -> list[Held]:
    """Return the workers, those of `slot` if given, and who is gone but still holds something.

    One query. Raises UnavailableError while Redis is away, DatabaseError.
    """
    loads = {load.worker: load for load in queue.live_workers_sync()}
    held: dict[str, dict[str, int]] = {}
    rows = Connection.unscoped.exclude(held_by="").values_list("held_by", "state")
    for worker, state, count in rows.annotate(count=Count("pk")).order_by("held_by", "state"):
        held.setdefault(worker, {})[State(state).wire] = count
    found = [
        Held(
            load=loads.get(worker) or WorkerLoad(worker=worker),
            connections=held.get(worker, {}),
            is_alive=worker in loads,
        )
        for worker in sorted(loads.keys() | held.keys())
    ]
    return [each for each in found if not slot or each.slot == slot]


def as_json(workers: Sequence[Held]) -> str:
    return json.dumps(
        [
            {**asdict(each.load), "is_alive": each.is_alive, "connections": dict(each.connections)}
            for each in workers
        ]
    )


def as_text(workers: Sequence[Held]) -> str:
    return "\n".join([HEAD, *map(_line, workers)]) if workers else "no worker is alive"


def _line(each: Held) -> str:
    load = each.load
    states = ", ".join(f"{count} {state}" for state, count in each.connections.items()) or "none"
    mark = "" if each.is_alive else " (gone)"
    mark = " (draining)" if load.is_draining else mark
    up = f"{(time.time() - load.since) / 60:.0f} min" if load.since else "-"
    counts = f"{load.calls:>6} {load.sessions:>8} {load.executed:>9}"
    return f"{load.worker:<32} {up:>8} {counts}  {states}{mark}"
