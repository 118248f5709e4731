"""The official conformance suite, client leg: the hub signs in where servers want it."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conformance import client as program
from tests.conformance.suite import Verdict, client_scenario, client_scenarios
from tests.live.newcomer import Newcomer
from tests.live.stack import RunningHub

pytestmark = [pytest.mark.live, pytest.mark.node]

AT_ONCE = 3
"""All at once, the scenarios that measure time fail."""
NOT_OFFERED = {"auth/basic-cimd"}
"""Wants a client id at an address that is not the hub's own (tests/conformance/README.md)."""
EXTENSIONS = ["auth/client-credentials-basic", "auth/client-credentials-jwt"]
OLD = ["auth/2025-03-26-oauth-endpoint-fallback", "auth/2025-03-26-oauth-metadata-backcompat"]


def scenarios(revision: str) -> list[str]:
    if revision == "2025-03-26":
        return OLD
    scored = [name for name in client_scenarios(revision) if name.startswith("auth/")]
    return [*(name for name in scored if name not in NOT_OFFERED), *EXTENSIONS]


@pytest.mark.parametrize(
    ("revision", "count"), [("2025-03-26", 2), ("2025-11-25", 15), ("2026-07-28", 26)]
)
def test_the_hub_passes_the_authorization_scenarios_of_a_revision(
    stack: RunningHub, newcomer: Newcomer, tmp_path: Path, revision: str, count: int
) -> None:
    command = f"{sys.executable} {program.__file__}"
    reach = {"MCPHUB_URL": stack.url, "MCPHUB_TOKEN": newcomer.api_key}

    def run(name: str) -> tuple[str, Verdict]:
        home = tmp_path / name.replace("/", "-")
        return name, client_scenario(name, revision, command, home, **reach)

    names = scenarios(revision)
    assert len(names) == count, names
    with ThreadPoolExecutor(AT_ONCE) as several:
        verdicts = dict(several.map(run, names))
    assert {name: v.failed for name, v in verdicts.items() if not v.holds} == {}
