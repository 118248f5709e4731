"""R20, R22 and R27 with real processes, real kills and a server that punishes every reuse."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import quote

import pytest
from django.db import connection

from oauth.models import Outcome
from oauth.names import LostReason
from tests.oauth.people import Desk

PROCESSES = 8
CALLS = 25


def database_url() -> str:
    """Return the address of the test's own database, for other processes."""
    found = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{found['NAME']}"
    where = f"{quote(found['USER'], safe='')}:{quote(found['PASSWORD'], safe='')}@{found['HOST']}"
    port = f":{found['PORT']}" if found["PORT"] else ""
    return f"postgres://{where}{port}/{found['NAME']}"


class Fleet:
    """Processes that run `tests.oauth.worker`; those that still live end with the test."""

    def __init__(self) -> None:
        self.running: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str, lease: float = 25.0) -> subprocess.Popen[str]:
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "MCPHUB_TEST_DATABASE_URL": database_url(),
            "TEST_LEASE_SECONDS": str(lease),
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.oauth.worker", *arguments],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.running.append(process)
        return process

    def ready(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"

    def go(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()

    def result(self, process: subprocess.Popen[str]) -> dict[str, object]:
        assert process.stdout is not None
        found: dict[str, object] = json.loads(process.stdout.readline() or "{}")
        process.wait(30)
        return found

    def run(self, *arguments: str, lease: float = 25.0) -> dict[str, object]:
        process = self.start(*arguments, lease=lease)
        self.ready(process)
        self.go(process)
        return self.result(process)

    def close(self) -> None:
        for process in self.running:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    made = Fleet()
    yield made
    made.close()


@pytest.mark.timeout(180)
async def test_r20_eight_processes_with_25_calls_each_spend_one_refresh_token(
    desk: Desk, fleet: Fleet
) -> None:
    await desk.sign_in()
    await desk.expire()
    arguments = ("race", str(desk.subject_key), desk.server.mcp_url, str(CALLS))
    processes = [fleet.start(*arguments) for _ in range(PROCESSES)]
    for process in processes:
        await asyncio.to_thread(fleet.ready, process)
    for process in processes:
        fleet.go(process)
    results = [await asyncio.to_thread(fleet.result, process) for process in processes]
    statuses = Counter(status for result in results for status in result.items())
    assert statuses == {("200", CALLS): PROCESSES}
    assert (desk.server.hits["refresh_token"], desk.server.hits["reuse"]) == (1, 0)
    assert desk.server.current_refresh_tokens() == [await desk.kept_refresh_token()]
    assert await desk.journal() == [Outcome.STORED]


@pytest.mark.timeout(120)
async def test_r22_refresher_killed_before_its_request_is_replaced(
    desk: Desk, fleet: Fleet
) -> None:
    await desk.sign_in()
    await desk.expire()
    await asyncio.to_thread(fleet.run, "refresh", str(desk.subject_key), "before")
    assert (desk.server.hits["refresh_token"], await desk.journal()) == (0, [Outcome.STARTED])
    await desk.age(timedelta(seconds=30))
    assert (await desk.call()).status_code == 200
    assert desk.server.hits["refresh_token"] == 1


@pytest.mark.timeout(120)
async def test_r22_refresher_killed_before_it_has_the_answer_needs_a_person(
    desk: Desk, fleet: Fleet
) -> None:
    await desk.sign_in()
    await desk.expire()
    desk.server.may_answer.clear()
    process = fleet.start("refresh", str(desk.subject_key), "never")
    await asyncio.to_thread(fleet.ready, process)
    fleet.go(process)
    assert await asyncio.to_thread(desk.server.committed.wait, 30)
    process.kill()
    process.wait()
    desk.server.may_answer.set()
    await desk.age(timedelta(seconds=30))
    for _ in range(3):
        told = await asyncio.to_thread(fleet.run, "refresh", str(desk.subject_key), "never")
        assert told == {
            "code": "authorization_needed",
            "reason": LostReason.REFRESH_INTERRUPTED.value,
        }
    assert desk.server.hits["refresh_token"] == 2


@pytest.mark.timeout(120)
async def test_r22_refresher_killed_after_its_commit_leaves_a_good_token(
    desk: Desk, fleet: Fleet
) -> None:
    await desk.sign_in()
    await desk.expire()
    await asyncio.to_thread(fleet.run, "refresh", str(desk.subject_key), "after")
    assert (await desk.call()).status_code == 200
    assert desk.server.hits["refresh_token"] == 1


@pytest.mark.timeout(120)
async def test_r27_stopped_refresher_is_replaced_and_cannot_write_when_it_wakes(
    desk: Desk, fleet: Fleet
) -> None:
    desk.server.rules.rotates = False
    await desk.sign_in()
    await desk.expire()
    desk.server.may_answer.clear()
    process = fleet.start("refresh", str(desk.subject_key), "never")
    await asyncio.to_thread(fleet.ready, process)
    fleet.go(process)
    assert await asyncio.to_thread(desk.server.committed.wait, 30)
    process.send_signal(signal.SIGSTOP)
    desk.server.may_answer.set()
    await desk.age(timedelta(seconds=60))
    assert (await desk.call()).status_code == 200
    kept, version = await desk.kept_refresh_token(), (await desk.grant()).version
    process.send_signal(signal.SIGCONT)
    assert await asyncio.to_thread(fleet.result, process) == {"code": "ok"}
    assert (await desk.kept_refresh_token(), (await desk.grant()).version) == (kept, version)
    assert await desk.journal() == [Outcome.DISCARDED, Outcome.STORED]
    assert ((await desk.call()).status_code, desk.server.hits["POST /as/revoke"]) == (200, 0)


@pytest.mark.timeout(120)
async def test_lease_of_a_dead_process_ends_by_itself(desk: Desk, fleet: Fleet) -> None:
    await desk.sign_in()
    await desk.expire()
    await asyncio.to_thread(fleet.run, "refresh", str(desk.subject_key), "before", lease=0.5)
    assert await desk.token()
    assert desk.server.hits["refresh_token"] == 1
