"""Leases: two workers and one connection, a dead holder, a zombie, a session that is lost."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any, ClassVar

import pytest
from redis import Redis

from connectors import queue
from connectors.models import Connection, ListingKind
from connectors.queue import workers
from connectors.services import catalog, connections, leases, recovery
from connectors.services.catalog import FetchedList
from connectors.services.endings import HeldElsewhereError
from connectors.services.leases import Outcome
from connectors.services.transitions import Fence, transition
from connectors.states import State
from mcphub.core import clock
from mcphub.core.types import JSONObject
from tests.connectors import server_factories
from tests.connectors.session_stack import Stack, add_server, kinds_of, running_worker
from tests.fakes import raw_server
from tests.fakes.raw_server import RawServer, Request, Wire, serving_in_thread
from tests.waiting import eventually
from tests.world import World

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def stack(transactional_db: None, redis: Redis) -> Iterator[Stack]:
    with running_worker() as stack:
        yield stack


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Connections that any worker is asked to recover, instead of Celery."""
    found: list[object] = []
    monkeypatch.setattr(queue, "send_recover", found.append)
    return found


class Forgetful(RawServer):
    """Forgets its session when told to, as after a restart."""

    is_restarted = False

    async def on_message(self, request: Request, wire: Wire) -> None:
        if request.rpc_method == "initialize":
            self.is_restarted = False
        if self.is_restarted:
            await wire.answer(b"", status=404)
        else:
            await super().on_message(request, wire)


def wanted(world: World, **fields: Any) -> Connection:
    return server_factories.make_custom(
        world.alice, **{"is_wanted": True, "state": "connecting", **fields}
    )


def alive(worker: str) -> bool:
    return worker.startswith("alive")


# --- claims -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({}, Outcome.TAKEN),
        ({"state": "connected", "held_by": "dead"}, Outcome.TAKEN),
        ({"held_by": "me", "epoch": 4}, Outcome.TAKEN),
        ({"held_by": "alive"}, Outcome.ELSEWHERE),
        ({"is_wanted": False}, Outcome.UNWANTED),
        ({"state": "disconnected"}, Outcome.UNWANTED),
        ({"state": "auth_required"}, Outcome.UNWANTED),
        ({"state": "error"}, Outcome.UNWANTED),
    ],
)
def test_a_lease_is_taken_only_from_nobody_and_the_dead(
    world: World, fields: dict[str, object], outcome: Outcome
) -> None:
    row = wanted(world, **fields)
    claim = leases.claim(row.pk, "me", is_alive=alive)
    assert claim.outcome is outcome
    stored = Connection.unscoped.get(pk=row.pk)
    is_taken = outcome is Outcome.TAKEN
    assert (stored.held_by, stored.epoch) == (
        ("me", row.epoch + 1) if is_taken else (row.held_by, row.epoch)
    )
    assert stored.state == ("connecting" if is_taken else row.state)


def test_of_two_workers_that_claim_at_once_one_gets_the_lease_and_the_other_learns_who(
    world: World,
) -> None:
    row = wanted(world)

    def other_was_faster(worker: str) -> bool:
        Connection.unscoped.filter(pk=row.pk).update(held_by="alive-2", epoch=9)
        return worker == "alive-2"

    Connection.unscoped.filter(pk=row.pk).update(held_by="dead")
    claim = leases.claim(row.pk, "me", is_alive=other_was_faster)
    assert (claim.outcome, claim.holder) == (Outcome.ELSEWHERE, "alive-2")
    row.refresh_from_db()
    assert (row.held_by, row.epoch) == ("alive-2", 9)


def test_late_writes_of_an_old_epoch_are_refused(world: World) -> None:
    row = wanted(world, held_by="me", epoch=5)
    old = Fence(worker="me", epoch=4)
    listing = FetchedList(kind=ListingKind.TOOLS, items=[{"name": "a"}])
    assert not transition(row.pk, State.CONNECTED, fence=old)
    assert catalog.store(row.pk, [listing], fence=old) is None
    assert not leases.release(row.pk, old)
    row.refresh_from_db()
    assert (row.state, row.held_by, row.tools.count()) == ("connecting", "me", 0)


def test_a_second_worker_sends_the_work_to_the_living_holder(world: World, stack: Stack) -> None:
    with serving_in_thread(RawServer()) as server, running_worker() as other:
        row = stack.connect(world.alice.principal, add_server(world.alice.principal, server.url))
        error = other.try_open(row)
        assert isinstance(error, HeldElsewhereError)
        assert error.holder == stack.worker.id
        assert (stack.is_open(row), other.is_open(row)) == (True, False)
        assert server.counts["POST initialize"] == 1


# --- holders that die ---------------------------------------------------------------------------


def test_the_sweep_hands_over_what_a_dead_worker_held(
    world: World, sent: list[object], redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        wanted(world, state="connected", held_by="dead-1", epoch=3),
        wanted(world, state="error", held_by="dead-1"),
        wanted(world, state="connected", held_by="alive-1"),
    ]
    monkeypatch.setattr(queue, "dead_workers", lambda names: {n for n in names if n == "dead-1"})
    assert recovery.sweep_leases() == 1 + 1  # once as the dead worker's, once as unattended
    for row in rows:
        row.refresh_from_db()
    assert set(sent) == {rows[0].pk}
    assert [(row.state, row.held_by) for row in rows] == [
        ("connecting", ""),
        ("error", ""),
        ("connected", "alive-1"),
    ]
    assert rows[0].epoch == 4
    assert kinds_of(rows[0]) == ["worker_lost", "state"]


def test_a_connection_whose_opening_ends_two_workers_rests_and_says_why(world: World) -> None:
    row = wanted(world, state="connecting", held_by="first-1")
    assert leases.hand_over_all("first-1") == []
    row.refresh_from_db()
    assert (row.state, row.held_by) == ("connecting", "")
    assert row.next_retry_at is not None
    Connection.unscoped.filter(pk=row.pk).update(held_by="second-1", next_retry_at=None)
    assert leases.hand_over_all("second-1") == []
    rested = Connection.unscoped.get(pk=row.pk)
    assert (rested.state, rested.held_by, rested.next_retry_at) == ("error", "", None)
    assert (rested.last_error or {})["code"] == "connection_quarantined"


def test_the_sweep_finds_what_was_asked_for_and_forgotten(
    world: World, sent: list[object], redis: Redis
) -> None:
    now = clock.now()
    long_ago = now - timedelta(minutes=5)
    due = wanted(world, next_retry_at=now)
    lost = wanted(world)
    Connection.unscoped.filter(pk=lost.pk).update(updated_at=long_ago)
    wanted(world)  # just asked for
    wanted(world, next_retry_at=now + timedelta(seconds=9))
    wanted(world, is_wanted=False, next_retry_at=now)
    recovery.sweep_leases()
    assert set(sent) == {due.pk, lost.pk}


def test_a_restarted_slot_takes_over_at_once(world: World, redis: Redis) -> None:
    with serving_in_thread(RawServer()) as server:
        row = add_server(world.alice.principal, server.url)
        connections.connect(world.alice.principal, row)
        Connection.unscoped.filter(pk=row.pk).update(
            state="connected", held_by="w1-0123456789ab", epoch=7
        )
        with running_worker(slot="w1") as stack:
            eventually(lambda: stack.is_open(row), what="the session is open again")
            row.refresh_from_db()
            assert (row.held_by, row.epoch) == (stack.worker.id, 9)


def test_a_slot_takes_nothing_from_a_slot_with_a_longer_name(world: World) -> None:
    for holder in ("w1-aaaaaaaaaaaa", "w1-x-bbbbbbbbbbbb", "w11-cccccccccccc"):
        wanted(world, held_by=holder)
    assert recovery.predecessors("w1", "w1-ffffffffffff") == {"w1-aaaaaaaaaaaa"}


def test_a_worker_that_was_asleep_closes_what_others_have_taken(world: World, stack: Stack) -> None:
    with serving_in_thread(RawServer()) as server:
        row = stack.connect(world.alice.principal, add_server(world.alice.principal, server.url))
        leases.hand_over_all(stack.worker.id)
        stack.worker.host.run(stack.worker.keeper.check_leases(), 5)
        assert not stack.is_open(row)
        row.refresh_from_db()
        assert (row.state, row.held_by) == ("connecting", "")


def test_a_worker_that_stops_gives_its_connections_to_the_others(
    world: World, sent: list[object], redis: Redis
) -> None:
    with serving_in_thread(RawServer()) as server:
        with running_worker() as stack:
            row = stack.connect(
                world.alice.principal, add_server(world.alice.principal, server.url)
            )
        row.refresh_from_db()
        assert sent == [row.pk]
        assert (row.state, row.held_by) == ("connecting", "")
        assert server.counts["DELETE"] == 0  # whoever opens it goes on with the session
    workers.forget_known()
    assert not queue.live_workers_sync()


# --- sessions that are lost ---------------------------------------------------------------------


def test_a_lost_session_is_opened_again_at_once(world: World, stack: Stack) -> None:
    server = Forgetful()
    with serving_in_thread(server):
        row = stack.connect(world.alice.principal, add_server(world.alice.principal, server.url))
        server.is_restarted = True
        error = stack.call(row, "echo")
        assert error is not None
        assert (error.problem_code, getattr(error, "was_sent", None)) == ("session_lost", False)
        eventually(lambda: stack.timers.waits, what="the next attempt is planned")
        assert stack.timers.waits == [0.0]
        row.refresh_from_db()
        assert (row.state, row.attempt) == ("connecting", 1)
        stack.go_off()
        row.refresh_from_db()
        assert (row.state, row.attempt, row.last_error) == ("connected", 0, None)
        assert stack.call(row, "echo") is None


class Talkative(Forgetful):
    capabilities: ClassVar[JSONObject] = {"tools": {}, "logging": {}}


def test_a_session_that_is_opened_anew_is_told_its_log_level_again(
    world: World, stack: Stack
) -> None:
    server = Talkative()
    with serving_in_thread(server):
        row = stack.connect(world.alice.principal, add_server(world.alice.principal, server.url))
        assert server.of("logging/setLevel") == []
        connections.set_log_level(world.alice.principal, row, "debug")
        server.is_restarted = True
        stack.call(row, "echo")
        stack.go_off()
        (told,) = server.of("logging/setLevel")
        assert told.params["level"] == "debug"
        assert stack.call(row, "echo") is None


def test_a_session_that_is_lost_again_and_again_counts_as_failing(
    world: World, stack: Stack
) -> None:
    server = Forgetful()
    with serving_in_thread(server):
        row = stack.connect(world.alice.principal, add_server(world.alice.principal, server.url))
        for number in range(6):
            server.is_restarted = True
            stack.call(row, "echo")
            eventually(partial(_is_settled, row, number), what=f"loss {number + 1} is recorded")
            if row.state == "connecting":
                stack.go_off()
    assert stack.timers.waits == [0.0, 2.0, 4.0, 8.0, 16.0]
    assert row.state == "error"


def _is_settled(row: Connection, number: int) -> bool:
    row.refresh_from_db()
    is_planned = row.state == "connecting" and row.attempt == number + 1
    return is_planned or row.state == "error"


def test_a_failing_tool_call_leaves_the_state_alone(world: World, stack: Stack) -> None:
    class Failing(RawServer):
        async def on_call(self, request: Request, wire: Wire) -> None:
            await wire.answer(raw_server.error(request.id, -32000))

    with serving_in_thread(Failing()) as server:
        row = stack.connect(world.alice.principal, add_server(world.alice.principal, server.url))
        assert stack.call(row, "echo") is not None
        row.refresh_from_db()
    assert (row.state, row.last_error) == ("connected", None)
