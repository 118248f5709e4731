"""`python -m bench`: starts the product and an upstream server on loopback, prints one table."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import sys

from bench import gateway, scenarios
from bench import hub as hubs
from bench.scenarios import Row


async def measure(options: argparse.Namespace) -> list[Row]:
    """Run every scenario once, against one stack."""
    rows: list[Row] = []
    async with hubs.running_upstream() as (upstream, upstream_pid), hubs.running_hub() as hub:
        wire = hub.wire()
        for era in ("modern", "legacy"):
            await hubs.add_server(wire, f"{upstream}/{era}/main", era)
            await hubs.connect(wire, era)
        for era in ("modern", "legacy"):
            rows += await scenarios.sequential(
                hub, upstream, era, rounds=options.rounds, calls=options.calls
            )
        for concurrency in (1, 16, 64):
            rows += await scenarios.cpu(
                hub, upstream_pid, concurrency=concurrency, calls=options.load
            )
        for era in ("modern", "legacy"):
            rows += await gateway.sequential(
                hub, upstream, era, rounds=options.rounds, calls=options.calls
            )
        rows += await gateway.concurrent(hub, upstream_pid, clients=64, calls=options.load)
        rows += await scenarios.waiting(hub, count=200)
        rows += await scenarios.big(hub)
        rows += await scenarios.many_servers(hub, upstream, count=100)
        rows += await scenarios.idle_sessions(hub, upstream, count=options.sessions)
    return rows


def show(rows: list[Row]) -> None:
    """Print the table."""
    marks = {True: "holds", False: "MISSED", None: ""}
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load}\n")
    print("| scenario | measured | bar | |\n|---|---|---|---|")
    for row in rows:
        print(f"| {row.name} | {row.value} | {row.bar} | {marks[row.holds]} |")


def main() -> int:
    """Exit code 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds")
    parser.add_argument("--calls", type=int, default=60, help="calls a round and side")
    parser.add_argument("--load", type=int, default=2000, help="calls of each load scenario")
    parser.add_argument("--sessions", type=int, default=300, help="idle sessions")
    rows = asyncio.run(measure(parser.parse_args()))
    show(rows)
    return 0 if all(row.holds is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
