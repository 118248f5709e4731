"""The quick runs of `python -m chaos`: a real stack of two web and two workers is broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chaos.runs import RUNS
from tests.live.stack import environment

pytestmark = [pytest.mark.live, pytest.mark.chaos, pytest.mark.timeout(500)]

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = ("--quick", "--json", "--rounds", "1", "--logs")
QUICK = sorted(run.id for run in RUNS.values() if run.is_quick)


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[str, Any]]:
    """Run them all once, on the database server of the suite."""
    database = os.environ.get("MCPHUB_TEST_DATABASE_URL", "")
    done = subprocess.run(
        [sys.executable, "-m", "chaos", *OPTIONS, "--database", database],
        cwd=ROOT,
        env=environment({}),
        capture_output=True,
        text=True,
        timeout=480,
        check=False,
    )
    assert done.stdout, done.stderr[-4000:]
    found: list[dict[str, Any]] = json.loads(done.stdout)
    sys.stderr.write(done.stderr[-20_000:])
    return {row["id"]: row for row in found}


@pytest.mark.parametrize("name", QUICK)
def test_the_promise_holds(rows: dict[str, dict[str, Any]], name: str) -> None:
    row = rows[name]
    if row["holds"] is None:
        pytest.skip(row["measured"])
    assert row["holds"], f"{row['invariant']}: {row['measured']}"
