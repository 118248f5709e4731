"""Subscriptions and log levels: what downstream clients wish, and what their servers are told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis

from connectors.models import Connection
from connectors.queue import lane_writer, tick_pipeline, workers
from connectors.selectors import ConnectionView
from connectors.services import subscriptions
from connectors.services.subscriptions import Kind, TooManySubscriptionsError, Wish
from connectors.upstream import reconnect
from tests.connectors.call_stack import view_of
from tests.connectors.relay_stack import run
from tests.connectors.session_stack import Stack, add_server, running_worker
from tests.fakes.raw_modern import RawModern, acknowledged
from tests.fakes.raw_server import RawServer, Request, Wire, error, result, serving_in_thread
from tests.waiting import eventually
from tests.world import World

pytestmark = pytest.mark.django_db(transaction=True)

A, B = (Wish(kind=Kind.RESOURCE, name=f"note://{name} x") for name in "ab")
TASK = Wish(kind=Kind.TASK, name="t 1")
FOREVER = 3600.0


class Subscribable(RawServer):
    """Of the handshake era; keeps what is subscribed to, and refuses one resource."""

    capabilities = {"tools": {}, "logging": {}, "resources": {"subscribe": True}}

    def __init__(self) -> None:
        super().__init__()
        self.subscribed: set[str] = set()

    async def on_message(self, request: Request, wire: Wire) -> None:
        uri = str(request.params.get("uri"))
        if request.rpc_method == "resources/subscribe":
            if uri == "note://refused":
                await wire.answer(error(request.id, -32002))
                return
            self.subscribed.add(uri)
        elif request.rpc_method == "resources/unsubscribe":
            self.subscribed.remove(uri)
        elif request.rpc_method != "logging/setLevel":
            await super().on_message(request, wire)
            return
        await wire.answer(result(request.id, {}))


class ModernSubscribable(RawModern):
    """Of 2026-07-28; knows the filters of the streams that are open."""

    capabilities = {"tools": {}, "resources": {"subscribe": True}}

    def __init__(self) -> None:
        super().__init__()
        self.open: list[Any] = []

    async def on_listen(self, request: Request, wire: Wire) -> None:
        wanted = request.params["notifications"]
        await wire.open_stream()
        self.open.append(wanted)
        await wire.event(acknowledged(request))
        try:
            await wire.until_gone()
        finally:
            self.open.remove(wanted)


@pytest.fixture
def stack(
    world: World, ledger_threads: None, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stack]:
    monkeypatch.setattr(reconnect, "MIN_SECONDS", 0.01)
    workers.forget_known()
    with running_worker() as found:
        yield found


def opened(world: World, stack: Stack, server: RawServer) -> Connection:
    return stack.connect(world.alice.principal, add_server(world.alice.principal, server.url))


def hold(
    connection: Connection, *wishes: Wish, by: str = "s1", seconds: float = FOREVER
) -> set[Wish]:
    connection.refresh_from_db()
    view: ConnectionView = view_of(connection)

    async def held() -> set[Wish]:
        first = await subscriptions.hold(view, wishes, by, seconds)
        subscriptions.bring_in_step(view)
        await settled()
        return first

    return run(held)


def drop(connection: Connection, *wishes: Wish, by: str = "s1") -> None:
    view: ConnectionView = view_of(connection)

    async def dropped() -> None:
        await subscriptions.drop(view, wishes, by)
        await settled()

    run(dropped)


async def settled() -> None:
    """Return when what the lane is to carry has left."""
    lane_writer()
    await tick_pipeline().call("PING")
    await tick_pipeline().flush()


def names(*wishes: Wish) -> set[str]:
    return {wish.name for wish in wishes}


# --- the handshake era


def test_the_first_wish_subscribes_and_the_last_that_goes_unsubscribes(
    world: World, stack: Stack
) -> None:
    with serving_in_thread(server := Subscribable()):
        row = opened(world, stack, server)
        assert hold(row, A, B, by="s1") == {A, B}
        eventually(lambda: server.subscribed == names(A, B), what="both are subscribed")
        assert hold(row, A, by="s2") == set()
        drop(row, A, B, by="s1")
        eventually(lambda: server.subscribed == names(A), what="one is left")
        drop(row, A, by="s2")
        eventually(lambda: not server.subscribed, what="none is left")
        assert server.counts["POST resources/subscribe"] == 2
        assert server.counts["POST resources/unsubscribe"] == 2


def test_a_wish_whose_holder_died_goes_with_its_time(world: World, stack: Stack) -> None:
    with serving_in_thread(server := Subscribable()):
        row = opened(world, stack, server)
        hold(row, A, seconds=1.0)
        hold(row, B)
        eventually(lambda: server.subscribed == names(A, B), what="both are subscribed")
        eventually(lambda: server.subscribed == names(B), what="the other's time is over")


def test_a_session_that_is_opened_anew_is_subscribed_again(world: World, stack: Stack) -> None:
    with serving_in_thread(server := Subscribable()):
        row = opened(world, stack, server)
        hold(row, A)
        eventually(lambda: server.subscribed, what="it is subscribed")
        stack.worker.host.run(stack.worker.host.close(row.pk), 10)
        server.subscribed.clear()
        opened_again = stack.connect(world.alice.principal, row)
        assert opened_again.state == "connected"
        eventually(lambda: server.subscribed == names(A), what="it is subscribed again")


def test_another_worker_that_takes_over_subscribes_again(world: World, stack: Stack) -> None:
    with serving_in_thread(server := Subscribable()):
        row = opened(world, stack, server)
        hold(row, A)
        eventually(lambda: server.subscribed, what="it is subscribed")
        stack.worker.host.run(stack.worker.keeper.drain(), 10)
        server.subscribed.clear()
        with running_worker() as other:
            other.open(row)
            eventually(lambda: server.subscribed == names(A), what="it is subscribed again")
            drop(row, A)


def test_a_refused_subscription_is_not_asked_for_again_and_again(
    world: World, stack: Stack
) -> None:
    refused = Wish(kind=Kind.RESOURCE, name="note://refused")
    with serving_in_thread(server := Subscribable()):
        row = opened(world, stack, server)
        hold(row, refused)
        hold(row, A)
        eventually(lambda: server.subscribed == names(A), what="the other is subscribed")
        hold(row, B)
        eventually(lambda: server.subscribed == names(A, B), what="it has looked again")
        assert server.counts["POST resources/subscribe"] == 3


def test_a_server_logs_as_much_as_who_wants_to_hear_most(world: World, stack: Stack) -> None:
    def levels() -> list[object]:
        return [request.params["level"] for request in server.of("logging/setLevel")]

    error_, debug = (Wish(kind=Kind.LOG_LEVEL, name=name) for name in ("error", "debug"))
    with serving_in_thread(server := Subscribable()):
        row = opened(world, stack, server)
        hold(row, error_, by="s1")
        eventually(lambda: levels() == ["error"], what="errors are logged")
        hold(row, debug, by="s2")
        eventually(lambda: levels() == ["error", "debug"], what="everything is logged")
        drop(row, debug, by="s2")
        eventually(lambda: levels() == ["error", "debug", "error"], what="it is quiet again")


# --- 2026-07-28


def test_wishes_are_the_filter_of_the_listen_stream(world: World, stack: Stack) -> None:
    with serving_in_thread(server := ModernSubscribable()):
        row = opened(world, stack, server)
        assert server.open == []
        hold(row, A, TASK)
        wanted = {"resourceSubscriptions": [A.name], "taskIds": [TASK.name]}
        eventually(lambda: server.open == [wanted], what="it listens")
        hold(row, B, by="s2")
        wanted["resourceSubscriptions"] = [A.name, B.name]
        eventually(lambda: server.open == [wanted], what="it listens to more")
        drop(row, A, TASK)
        eventually(lambda: server.open == [{"resourceSubscriptions": [B.name]}], what="to less")
        drop(row, B, by="s2")
        eventually(lambda: server.open == [], what="it listens no more")


# --- bounds


def test_a_connection_has_only_so_many_wishes(
    world: World, connection: Connection, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "MOST_WISHES", 2)
    view = view_of(connection)

    async def too_many() -> None:
        await subscriptions.hold(view, [A], "s1", FOREVER)
        await subscriptions.hold(view, [A, B], "s1", FOREVER)  # its own are renewed
        with pytest.raises(TooManySubscriptionsError):
            await subscriptions.hold(view, [TASK], "s2", FOREVER)

    run(too_many)
