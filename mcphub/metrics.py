"""`/metrics`: the installation in numbers, in Prometheus' text format; off without its token.

Nothing is gathered meanwhile: each figure is one that a part of the hub has anyway, looked up when
asked for. Any web process answers for the workers and stores; `mcphub_web_…` is its own.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from django.conf import settings
from django.db import Error as DatabaseError
from django.http import Http404, HttpRequest, HttpResponse

from connectors import queue, selectors
from connectors.queue import WorkerLoad
from connectors.selectors import Fleet
from mcphub import health
from mcphub.core.errors import UnavailableError
from mcphub.core.offload import in_thread
from mcphub.core.patience import database_patience
from tracing import recorder

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LAG_PROBE_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Metric:
    """One family: its samples are a value each, by the value of `label`."""

    name: str
    help: str
    samples: Sequence[tuple[str, float]]
    label: str = ""
    kind: str = field(default="gauge", kw_only=True)

    def lines(self) -> Iterator[str]:
        yield f"# HELP mcphub_{self.name} {self.help}"
        yield f"# TYPE mcphub_{self.name} {self.kind}"
        for value, number in self.samples:
            label = f'{{{self.label}="{value}"}}' if self.label else ""
            yield f"mcphub_{self.name}{label} {number:.10g}"


async def metrics(request: HttpRequest) -> HttpResponse:
    """Answer 404 where no token is set, and 401 without it."""
    if not settings.METRICS_TOKEN:
        raise Http404
    shown = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if not hmac.compare_digest(shown.encode(), settings.METRICS_TOKEN.encode()):
        return HttpResponse(status=401, headers={"WWW-Authenticate": "Bearer"})
    lines = [line for metric in await _gathered() for line in metric.lines()]
    return HttpResponse("\n".join(lines) + "\n", content_type=CONTENT_TYPE)


async def _gathered() -> list[Metric]:
    fleet, workers, beat, lag = await asyncio.gather(
        _fleet(), _workers(), health.probe(queue.is_beating), _loop_lag()
    )
    parts = [("database", fleet is not None), ("redis", workers is not None), ("beat", bool(beat))]
    return [
        Metric("up", "Whether a part answers.", [(name, is_up) for name, is_up in parts], "part"),
        *(_of_fleet(fleet) if fleet is not None else ()),
        *_of_workers(workers or ()),
        *_of_process(lag),
    ]


def _of_fleet(fleet: Fleet) -> Iterable[Metric]:
    yield Metric("open_calls", "Calls without an end.", [*fleet.open_calls.items()], "status")
    yield Metric(
        "oldest_queued_call_seconds",
        "Age of the call that has waited longest for a worker.",
        [("", fleet.oldest_queued_seconds)],
    )
    yield Metric("connections", "Connections by state.", [*fleet.connections.items()], "state")


def _of_workers(workers: Sequence[WorkerLoad]) -> Iterable[Metric]:
    yield Metric("workers", "Workers that live.", [("", len(workers))])
    for name, text, kind in WORKER_FIGURES:
        samples = [(load.worker, float(getattr(load, name))) for load in workers]
        total = "_total" if kind == "counter" else ""
        yield Metric(f"worker_{name}{total}", text, samples, "worker", kind=kind)


WORKER_FIGURES = (
    ("calls", "Calls in a worker's hands.", "gauge"),
    ("sessions", "Sessions that are open in a worker.", "gauge"),
    ("tasks", "Tasks of a worker's event loop.", "gauge"),
    ("executed", "Calls that a worker has claimed.", "counter"),
    ("duplicates", "Rings for calls that somebody had already.", "counter"),
    ("outrun", "Ends that did not count, since the call had been decided.", "counter"),
)


def _of_process(lag: float) -> Iterable[Metric]:
    traces = recorder.counts()
    yield Metric("web_loop_lag_seconds", "How late the event loop is.", [("", lag)])
    yield Metric("web_tasks", "Tasks of the event loop.", [("", len(asyncio.all_tasks()))])
    yield Metric(
        "web_trace_records_total",
        "Trace records of this process by what became of them.",
        [("stored", traces.stored), ("dropped", traces.dropped)],
        "outcome",
        kind="counter",
    )


async def _fleet() -> Fleet | None:
    try:
        async with database_patience():
            return await in_thread(selectors.fleet)
    except (DatabaseError, UnavailableError):
        return None


async def _workers() -> Sequence[WorkerLoad] | None:
    try:
        return await queue.live_workers()
    except UnavailableError:
        return None


async def _loop_lag() -> float:
    started = time.monotonic()
    await asyncio.sleep(LAG_PROBE_SECONDS)
    return max(0.0, time.monotonic() - started - LAG_PROBE_SECONDS)
