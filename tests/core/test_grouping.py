"""GroupWriter: order, grouping, failures of a batch, limits and the end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from mcphub.core.errors import UnavailableError
from mcphub.core.grouping import GroupWriter

SECONDS = 10.0


class Store:
    """Records batches; the first one waits until the gate opens."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = threading.Event()
        self.entered = threading.Event()

    def write(self, items: Sequence[int]) -> list[int]:
        self.entered.set()
        self.gate.wait(SECONDS)
        self.batches.append(list(items))
        if 13 in items:
            raise ValueError("unlucky")
        return [item * 2 for item in items]


@pytest.fixture
def store() -> Iterator[Store]:
    store = Store()
    yield store
    store.gate.set()


Make = Callable[..., GroupWriter[int, int]]


@pytest.fixture
def make(store: Store) -> Iterator[Make]:
    made: list[GroupWriter[int, int]] = []

    def build(**options: int) -> GroupWriter[int, int]:
        made.append(GroupWriter(store.write, name="test", **options))  # type: ignore[arg-type]  # only numbers here
        return made[-1]

    yield build
    store.gate.set()
    for writer in made:
        writer.close()


def test_what_comes_while_the_thread_is_busy_is_one_batch_in_order(
    store: Store, make: Make
) -> None:
    writer = make()
    first = writer.put(0)
    assert store.entered.wait(SECONDS)
    rest = [writer.put(number) for number in range(1, 6)]
    store.gate.set()
    assert [future.result(SECONDS) for future in (first, *rest)] == [0, 2, 4, 6, 8, 10]
    assert store.batches == [[0], [1, 2, 3, 4, 5]]


def test_a_batch_is_never_larger_than_the_limit(store: Store, make: Make) -> None:
    writer = make(largest=2)
    first = writer.put(0)
    assert store.entered.wait(SECONDS)
    rest = [writer.put(number) for number in range(1, 6)]
    store.gate.set()
    assert [future.result(SECONDS) for future in (first, *rest)] == [0, 2, 4, 6, 8, 10]
    assert store.batches == [[0], [1, 2], [3, 4], [5]]


def test_a_failing_batch_reaches_each_of_its_callers_and_no_other(
    store: Store, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    writer = make(largest=2)
    first = writer.put(0)
    assert store.entered.wait(SECONDS)
    unlucky = [writer.put(12), writer.put(13)]
    later = writer.put(14)
    store.gate.set()
    assert [first.result(SECONDS), later.result(SECONDS)] == [0, 28]
    for future in unlucky:
        with pytest.raises(ValueError, match="unlucky"):
            future.result(SECONDS)
    assert "group write failed writer=test size=2" in caplog.text


def test_too_few_answers_fail_the_callers_that_got_none(caplog: pytest.LogCaptureFixture) -> None:
    writer: GroupWriter[int, int] = GroupWriter(lambda _: [], name="short")
    with pytest.raises(ValueError, match="shorter"):
        writer.put(1).result(SECONDS)
    writer.close()


def test_past_the_limit_callers_are_turned_away(store: Store, make: Make) -> None:
    writer = make(limit=1)
    writer.put(0)
    assert store.entered.wait(SECONDS)
    writer.put(1)
    with pytest.raises(UnavailableError):
        writer.put(2)


def test_a_waiting_item_cannot_be_cancelled_and_its_batch_is_safe(store: Store, make: Make) -> None:
    writer = make()
    writer.put(0)
    assert store.entered.wait(SECONDS)
    one, two = writer.put(1), writer.put(2)
    assert not one.cancel()
    store.gate.set()
    assert (one.result(SECONDS), two.result(SECONDS)) == (2, 4)


async def test_cancelling_the_caller_does_not_take_the_item_back(store: Store, make: Make) -> None:
    writer = make()
    task = asyncio.create_task(writer.write(1))
    assert await asyncio.to_thread(store.entered.wait, SECONDS)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    store.gate.set()
    assert await writer.write(2) == 4
    assert store.batches == [[1], [2]]


def test_closing_writes_what_is_queued_and_refuses_more(store: Store) -> None:
    ended = threading.Event()
    writer = GroupWriter(store.write, name="test", largest=1, at_end=ended.set)
    futures = [writer.put(number) for number in range(3)]
    store.gate.set()
    writer.close()
    assert [future.result(0) for future in futures] == [0, 2, 4]
    assert ended.is_set()
    with pytest.raises(UnavailableError):
        writer.put(4)


def test_closing_a_writer_that_was_never_used_starts_nothing() -> None:
    before = threading.active_count()
    GroupWriter(lambda items: items, name="unused").close()
    assert threading.active_count() == before
