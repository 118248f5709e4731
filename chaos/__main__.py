"""`python -m chaos`: breaks a real stack in every way that we promise to survive."""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import signal
import sys
from collections.abc import Iterable
from dataclasses import asdict

import psycopg

from chaos import stack as stacks
from chaos.capacity import SETTINGS, capacity
from chaos.runs import RUNS
from chaos.soak import soak
from chaos.stack import Stack
from chaos.verdict import Row, Run, execute

DATABASE = "postgresql://postgres@127.0.0.1:5432/postgres"


def main() -> int:
    """Exit code 1 when a promise is broken."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # ends the stack
    logging.disable(logging.ERROR)  # the upstream servers of this process talk about every fault
    options = parser().parse_args()
    chosen = choose(options)
    rows: list[Row] = []
    with stacks.running(options.database, SETTINGS if options.capacity else None) as stack:
        for row in measure(stack, chosen, options):
            rows.append(row)
            print(f"{row.id} {row.result} {row.seconds:.0f} s {row.measured}", file=sys.stderr)
            if row.holds is False and options.logs:
                print(stack.logs(), file=sys.stderr)
        kind = "PostgreSQL" if stack.is_postgresql else "SQLite"
    show(rows, kind, is_json=options.json)
    return 1 if any(row.holds is False for row in rows) else 0


def measure(stack: Stack, chosen: list[Run], options: argparse.Namespace) -> Iterable[Row]:
    """Do what was asked for: the soak, the capacity, or the runs."""
    if options.soak:
        return [soak(stack, options.soak)]
    if options.capacity:
        return capacity(stack, options.capacity, options.capacity // 2)
    return execute(stack, chosen, options.rounds)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    made.add_argument("--only", default="", metavar="R01,R05", help="these runs alone")
    made.add_argument("--quick", action="store_true", help="the subset of `make test`")
    made.add_argument("--rounds", type=int, help="rounds of those runs that repeat themselves")
    made.add_argument("--soak", type=int, default=0, metavar="MINUTES", help="only the soak, R41")
    made.add_argument(
        "--capacity",
        type=int,
        default=0,
        metavar="SESSIONS",
        help="only so many idle sessions, and half as many waiting calls",
    )
    made.add_argument("--json", action="store_true")
    made.add_argument("--logs", action="store_true", help="show logs below what broke")
    made.add_argument(
        "--database",
        default=default_database(),
        metavar="URL",
        help="PostgreSQL server on which a database is made and dropped; '' for SQLite",
    )
    return made


def default_database() -> str:
    """Return the server of the suite, or the local one when it answers."""
    chosen = os.environ.get("MCPHUB_TEST_DATABASE_URL")
    if chosen is not None:
        return chosen
    try:
        psycopg.connect(DATABASE, connect_timeout=2).close()
    except psycopg.Error:
        return ""
    return DATABASE


def choose(options: argparse.Namespace) -> list[Run]:
    names = [name.strip().upper() for name in options.only.split(",") if name.strip()]
    unknown = set(names) - RUNS.keys()
    if unknown:
        raise SystemExit(f"no such run: {', '.join(sorted(unknown))}")
    return [
        each
        for each in sorted(RUNS.values(), key=lambda each: each.id)
        if (not names or each.id in names) and (not options.quick or each.is_quick)
    ]


def show(rows: list[Row], kind: str, *, is_json: bool) -> None:
    if is_json:
        print(json.dumps([asdict(row) for row in rows]))
        return
    cores = os.cpu_count()
    print(f"Python {platform.python_version()}, {kind}, {cores} cores, 2 web, 2 worker\n")
    print("| test | rounds | invariant | result | measured | s |\n|---|---|---|---|---|---|")
    for row in rows:
        cells = (row.id, row.rounds, row.invariant, row.result, row.measured, f"{row.seconds:.0f}")
        print(f"| {' | '.join(map(str, cells))} |")


if __name__ == "__main__":
    sys.exit(main())
