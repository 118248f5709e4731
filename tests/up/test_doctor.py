"""`mcphub doctor` and `mcphub workers` on a running hub and on broken ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from mcphub.core.crypto import KeyRing
from tests.live.stack import RunningHub
from tests.up.test_operations import mcphub
from tests.waiting import eventually

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

NAMES = [
    "settings",
    "keys",
    "egress",
    "database",
    "migrations",
    "redis",
    "clock",
    "workers",
    "beat",
]


def checks(text: str) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in json.loads(text)["checks"]}


def test_doctor_finds_nothing_wrong_with_a_fresh_hub(hub: RunningHub) -> None:
    eventually(hub.is_ready, 60.0, "the hub is ready")
    result = mcphub("doctor", "--home", str(hub.home), "--json")
    assert result.returncode == 0, result.stdout
    found = checks(result.stdout)
    assert [name for name in NAMES if name in found] == NAMES
    assert {check["verdict"] for check in found.values()} <= {"ok", "warn"}


def test_doctor_judges_the_hub_by_what_up_chose_for_it(hub: RunningHub) -> None:
    found = checks(mcphub("doctor", "--only", "egress", "--home", str(hub.home), "--json").stdout)
    assert "loopback" in found["egress"]["detail"]


def test_doctor_of_a_home_without_a_hub_fails_and_says_what_to_do(home: Path) -> None:
    result = mcphub("doctor", "--home", str(home))
    assert result.returncode == 1
    assert "fail  settings" in result.stdout
    assert "docs/configuration.md" in result.stdout
    assert "Traceback" not in result.stdout + result.stderr


def test_doctor_names_every_part_that_is_missing(tmp_path: Path) -> None:
    result = mcphub(
        "doctor",
        "--json",
        MCPHUB_SECRET_KEY="x" * 50,
        MCPHUB_KEYS=KeyRing.new_key("k1"),
        MCPHUB_DATABASE_URL=f"sqlite:///{tmp_path}/empty.sqlite3",
        MCPHUB_REDIS_URL="redis://127.0.0.1:1/0",
    )
    assert result.returncode == 1, result.stderr
    failed = {n for n, check in checks(result.stdout).items() if check["verdict"] == "fail"}
    assert failed == {"migrations", "redis", "workers", "beat"}
    assert all(c["hint"] for c in checks(result.stdout).values() if c["verdict"] == "fail")


def test_doctor_finds_secrets_that_no_key_opens(hub: RunningHub) -> None:
    changed = mcphub(
        "doctor", "--only", "keys", "--home", str(hub.home), MCPHUB_KEYS=KeyRing.new_key("other")
    )
    assert changed.returncode in {0, 1}
    assert ("no key opens" in changed.stdout) is (changed.returncode == 1)


def test_doctor_looks_at_what_is_named_alone(hub: RunningHub) -> None:
    result = mcphub("doctor", "--only", "beat", "database", "--home", str(hub.home), "--json")
    assert list(checks(result.stdout)) == ["database", "beat"]


def test_workers_says_who_holds_what(hub: RunningHub) -> None:
    eventually(hub.is_ready, 60.0, "the hub is ready")
    result = mcphub("workers", "--home", str(hub.home), "--json")
    assert result.returncode == 0, result.stderr
    workers = json.loads(result.stdout)
    assert [w["worker"].rpartition("-")[0] for w in workers if w["is_alive"]] == ["w1"]
    assert workers[0]["since"] > 0
    table = mcphub("workers", "--home", str(hub.home)).stdout
    assert table.splitlines()[0].startswith("worker")


def test_workers_of_a_slot_that_nobody_has_is_exit_code_1(hub: RunningHub) -> None:
    assert mcphub("workers", "--slot", "w1", "--home", str(hub.home)).returncode == 0
    nobody = mcphub("workers", "--slot", "w9", "--home", str(hub.home))
    assert (nobody.returncode, nobody.stdout) == (1, "no worker is alive\n")


def test_readyz_names_a_missing_beat_and_still_serves(hub: RunningHub) -> None:
    answer = httpx.get(f"{hub.url}/readyz", trust_env=False)
    assert answer.status_code == 200
    assert set(answer.json()["parts"]) == {"database", "redis", "workers", "beat"}
