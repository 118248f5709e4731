"""Processes end while calls run: no call is executed twice, every one ends, the hub comes back."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest

from tests.factories import unique
from tests.fakes.mcp_servers import Kind
from tests.fakes.mcp_servers import running as serving
from tests.live.chaos import REDIS, Chaos, Load, chaos_hub
from tests.live.stack import RunningHub
from tests.waiting import eventually

pytestmark = [pytest.mark.live, pytest.mark.chaos]

CALLS = 20
LATE = 5
QUICK_SECONDS = 2.5
DONE = (200, "")
UNKNOWN = (502, "outcome_unknown")
AWAY = (503, "unavailable")


@pytest.fixture(scope="module")
def chaos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chaos]:
    with chaos_hub(tmp_path_factory.mktemp("chaos")) as found:
        yield found


@pytest.fixture
def stack(chaos: Chaos) -> RunningHub:
    """In place of the shared one, whose processes are left alone."""
    return chaos.hub


@pytest.fixture(params=[Kind.LEGACY, Kind.MODERN], ids=["handshake era", "2026-07-28"])
def load(request: pytest.FixtureRequest, chaos: Chaos) -> Iterator[Load]:
    with one_load(chaos, request.param) as found:
        yield found


@pytest.fixture
def load_once(chaos: Chaos) -> Iterator[Load]:
    with one_load(chaos, Kind.DUAL) as found:
        yield found


@contextmanager
def one_load(chaos: Chaos, kind: Kind) -> Iterator[Load]:
    eventually(chaos.hub.is_ready, 60.0, "the hub is ready")
    slug, api = unique("up")[:24], chaos.api()
    with serving(kind) as server, ThreadPoolExecutor(CALLS + 2 * LATE) as threads:
        api.connected(slug, server.url)
        yield Load(api=api, slug=slug, demo=server.demo, threads=threads)
        api.http.delete(f"/api/v1/servers/{slug}")


def test_calls_of_a_killed_worker_end_unknown_and_what_waited_is_done(
    chaos: Chaos, load: Load
) -> None:
    holder = chaos.holder(load.slug)
    sent = load.send(CALLS, ms=4000)
    load.until_running(sent)
    os.kill(chaos.hub.pid(holder), signal.SIGSTOP)  # what is rung for now stays unclaimed
    waiting = load.send(LATE, ms=10)
    eventually(lambda: len(chaos_rows(load)) == CALLS + LATE, 10.0, "all calls are accepted")
    killed = chaos.hub.kill(holder)
    started = time.monotonic()
    assert load.codes(sent) == {UNKNOWN}
    assert load.codes(waiting) == {DONE}
    assert time.monotonic() - started < 30
    load.works_again()
    assert chaos.hub.pid(holder) != killed
    found = Counter(row["status"] for row in load.ledger() if row["target"] == "sleep")
    assert found == {"outcome_unknown": CALLS, "succeeded": LATE}
    load.never_twice()


def chaos_rows(load: Load) -> list[object]:
    rows: list[object] = load.api.get("/calls", server=load.slug, limit=200)["items"]
    return rows


def test_calls_go_on_while_the_web_process_is_killed(chaos: Chaos, load_once: Load) -> None:
    load = load_once
    keys = load.send(CALLS, ms=3000)
    load.until_running(keys)
    chaos.hub.kill("web1")
    assert {load.answers[key].result(60) for key in keys} == {None}
    eventually(chaos.hub.is_live, 30.0, "web is back")
    rows = load.ledger()
    assert Counter(row["status"] for row in rows) == {"succeeded": CALLS}
    again = [load.ask(key, 3000) for key in keys]  # who lost the answer asks with the same key
    assert {a.json()["content"][0]["text"] for a in again if a} == {"slept 3000"}
    assert {a.headers["Idempotent-Replayed"] for a in again if a} == {"true"}
    load.works_again()
    load.never_twice()


def is_quick(load: Load) -> bool:
    """Whether a new call succeeds; in any case it is answered at once, with when to try again."""
    started = time.monotonic()
    response = load.ask(unique("probe"), 1)
    assert response is not None
    assert time.monotonic() - started < QUICK_SECONDS
    if response.status_code != 200:
        assert (response.status_code, response.json()["code"]) == AWAY, response.text
        assert int(response.headers["Retry-After"]) >= 1
    return response.status_code == 200


@pytest.mark.skipif(bool(REDIS), reason="the Redis is not the hub's own: it must not be killed")
def test_calls_go_on_while_valkey_is_killed_and_new_ones_are_answered_at_once(
    chaos: Chaos, load_once: Load
) -> None:
    load = load_once
    keys = load.send(CALLS, ms=3000)
    load.until_running(keys)
    killed = chaos.hub.kill("valkey")
    eventually(lambda: is_quick(load), 20.0, "new calls succeed")
    assert load.codes(keys) == {DONE}
    assert chaos.hub.pid("valkey") != killed
    assert {row["status"] for row in load.ledger()} == {"succeeded"}
    load.works_again()
    load.never_twice()


@pytest.mark.skipif(bool(REDIS), reason="the Redis is not the hub's own: it must not be stopped")
def test_a_valkey_that_hangs_delays_no_answer_and_loses_no_call(
    chaos: Chaos, load_once: Load
) -> None:
    load = load_once
    keys = load.send(CALLS, ms=2000)
    load.until_running(keys)
    pid = chaos.hub.pid("valkey")
    os.kill(pid, signal.SIGSTOP)
    try:
        assert [is_quick(load) for _ in range(3)] == [False] * 3
        assert load.codes(keys) == {DONE}  # the ledger tells, no reply can
    finally:
        os.kill(pid, signal.SIGCONT)
    eventually(lambda: is_quick(load), 20.0, "new calls succeed")
    assert {row["status"] for row in load.ledger()} == {"succeeded"}
    load.works_again()
    load.never_twice()


def test_a_worker_that_is_asked_to_end_finishes_its_calls_and_hands_over(
    chaos: Chaos, load: Load
) -> None:
    holder = chaos.holder(load.slug)
    keys = load.send(CALLS, ms=3000)
    load.until_running(keys)
    before = chaos.hub.pid(holder)
    os.kill(before, signal.SIGTERM)
    late = load.send(LATE, ms=10)
    assert load.codes(keys) == {DONE}
    assert load.codes(late) == {DONE}
    eventually(lambda: chaos.hub.pids()[holder] not in {None, before}, 40.0, "a new worker")
    assert {row["status"] for row in load.ledger()} == {"succeeded"}
    load.works_again()
    load.never_twice()


def test_a_worker_that_wakes_up_too_late_changes_no_outcome(chaos: Chaos, load_once: Load) -> None:
    load = load_once
    holder = chaos.holder(load.slug)
    keys = load.send(LATE, ms=1500)
    load.until_running(keys)
    pid = chaos.hub.pid(holder)
    os.kill(pid, signal.SIGSTOP)
    try:
        assert load.codes(keys) == {UNKNOWN}
        eventually(lambda: chaos.holder(load.slug) not in {"", holder}, 40.0, "another worker")
        load.works_again()
    finally:
        os.kill(pid, signal.SIGCONT)
    log = chaos.hub.home / "logs" / f"{holder}.log"
    eventually(lambda: log.read_text().count("end refused") >= LATE, 20.0, "late ends are refused")
    found = Counter(row["status"] for row in load.ledger() if row["target"] == "sleep")
    assert found == {"outcome_unknown": LATE}
    assert chaos.hub.pid(holder) == pid
    load.works_again()
    load.never_twice()


def test_every_part_is_back_and_ready_after_all_of_that(chaos: Chaos) -> None:
    def workers() -> int:
        count: int = httpx.get(f"{chaos.hub.url}/readyz", trust_env=False).json()["workers"]
        return count

    eventually(lambda: workers() == 2, 60.0, "both workers are back")
    assert chaos.hub.is_ready()
    assert all(chaos.hub.pids().values())
