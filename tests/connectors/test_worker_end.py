"""A worker that could take no work any more ends itself, so that its supervisor starts another."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator

import pytest
from redis import Redis

from tests.connectors.session_stack import running_worker
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)


class BrokenReader:
    """A lane that ends by a fault."""

    def __init__(self, worker: str) -> None:
        self.worker = worker

    async def __aiter__(self) -> AsyncIterator[object]:
        raise KeyError(self.worker)
        yield

    async def aclose(self) -> None:
        """Nothing is open."""


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr("connectors.worker.os.kill", lambda *arguments: sent.append(arguments))
    return sent


def test_a_worker_whose_lane_is_broken_asks_its_own_process_to_end(
    monkeypatch: pytest.MonkeyPatch, signals: list[tuple[int, int]], redis: Redis
) -> None:
    monkeypatch.setattr("connectors.worker.LaneReader", BrokenReader)
    with running_worker():
        eventually(lambda: signals, what="the process is asked to end")
    assert signals == [(os.getpid(), signal.SIGTERM)]


def test_a_worker_that_is_stopped_sends_no_signal(
    signals: list[tuple[int, int]], redis: Redis
) -> None:
    with running_worker():
        pass
    assert signals == []
