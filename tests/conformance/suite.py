"""The official suite as verdicts: a server's scenarios in one process, a client's one by one."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.node_tools import modern_node, package

SECONDS = 90
SCENARIO_SECONDS = 45
SCENARIO = re.compile(r"^server-(?P<name>.+)-\d{4}-\d\d-\d\dT[\d-]+Z$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one scenario found out."""

    passed: frozenset[str]
    failed: dict[str, str]
    """Failed checks and warnings, with what the suite says about each."""

    @property
    def holds(self) -> bool:
        """Whether something was observed, and nothing was wrong with it."""
        return bool(self.passed) and not self.failed


def suite(*arguments: str, seconds: float, **variables: str) -> str:
    """Run the suite to its end, return what it said."""
    program = package("@modelcontextprotocol", "conformance", "dist", "index.js")
    ran = subprocess.run(
        [modern_node(), str(program), *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    return ran.stdout + ran.stderr


def server_leg(url: str, revision: str, home: Path) -> dict[str, Verdict]:
    """Run what `revision` requires of a server, and its extensions, against `url`."""
    where = ("--url", url, "--output-dir", str(home))
    said = suite("server", "--requirements", revision, *where, seconds=SECONDS)
    verdicts = {}
    for file in home.glob("*/checks.json"):
        found = SCENARIO.match(file.parent.name)
        assert found is not None, file.parent.name
        verdicts[found["name"]] = verdict_of(file)
    assert verdicts, said[-2000:]
    return verdicts


def client_scenario(
    name: str, revision: str, command: str, home: Path, **variables: str
) -> Verdict:
    """Run one scenario against the client that `command` starts."""
    asked = ("client", "--scenario", name, "--spec-version", revision, "--force")
    where = ("--command", command, "--output-dir", str(home), "--timeout", "30000")
    said = suite(*asked, *where, seconds=SCENARIO_SECONDS, **variables)
    files = list(home.rglob("checks.json"))
    if not files:
        return Verdict(passed=frozenset(), failed={"_suite": said[-2000:]})
    return verdict_of(files[0])


def client_scenarios(revision: str) -> list[str]:
    """Return the scored client scenarios of a revision, from the suite's own list."""
    folder = package("@modelcontextprotocol", "conformance", "requirements")
    required: Mapping[str, list[str]] = yaml.safe_load((folder / f"{revision}.yaml").read_text())
    return required["client"]


def verdict_of(file: Path) -> Verdict:
    checks = json.loads(file.read_text())
    bad = {
        check["id"]: check.get("errorMessage", "")
        for check in checks
        if check["status"] in {"FAILURE", "WARNING"}
    }
    good = {check["id"] for check in checks if check["status"] == "SUCCESS"}
    return Verdict(passed=frozenset(good), failed=bad)
