"""Connections: what members do, what a worker then does, and the states in between."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from functools import partial

import pytest
from redis import Redis

from connectors import selectors
from connectors.models import Connection, CustomServer
from connectors.services import connections, custom_servers
from connectors.services.transitions import transition
from connectors.states import MOVES, State
from connectors.upstream.contract import UpstreamRequest
from mcphub.core.clock import Deadline
from mcphub.core.errors import HubError
from tests.connectors import server_factories
from tests.connectors.session_stack import Stack, add_server, kinds_of, running_worker
from tests.fakes.mcp_servers import Kind, running
from tests.fakes.raw_server import RawServer, Request, Wire, serving_in_thread
from tests.waiting import eventually
from tests.world import World

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def stack(transactional_db: None, redis: Redis) -> Iterator[Stack]:
    with running_worker() as stack:
        yield stack


def is_let_go(row: Connection) -> bool:
    row.refresh_from_db()
    return row.held_by == ""


def code_of(row: Connection) -> object:
    return row.last_error and row.last_error.get("code")


def state_of(row: Connection) -> str:
    row.refresh_from_db()
    return row.state


class NeedsToken(RawServer):
    """Answers 401 unless the right token comes."""

    async def serve(self, request: Request, wire: Wire) -> None:
        if request.headers.get("authorization") == "Bearer right":
            await self.route(request, wire)
        else:
            await wire.answer(b"secret text", status=401, content_type="text/plain")


class Refusing(RawServer):
    async def serve(self, request: Request, wire: Wire) -> None:
        await wire.answer(b"secret text", status=503, content_type="text/plain")


class WebPage(RawServer):
    async def serve(self, request: Request, wire: Wire) -> None:
        await wire.answer(b"<html>secret text</html>", content_type="text/html")


# --- opening ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "method"), [(Kind.LEGACY, "ping"), (Kind.MODERN, "server/discover")]
)
def test_a_server_of_any_era_answers_what_a_ping_sends(
    world: World, stack: Stack, kind: Kind, method: str
) -> None:
    with running(kind) as server:
        row = stack.connect(world.alice.principal, add_server(world.alice.principal, server.url))
        request = UpstreamRequest(method=method, params={}, deadline=Deadline.after(5.0))
        result = stack.worker.host.run(stack.worker.keeper.request(row.pk, request), 5.0)
    assert isinstance(result, dict)


@pytest.mark.parametrize(
    ("kind", "era", "transport"),
    [
        (Kind.LEGACY, "legacy", "streamable-http"),
        (Kind.MODERN, "modern", "streamable-http"),
    ],
)
def test_a_server_of_any_era_becomes_connected_with_its_catalog(
    world: World, stack: Stack, kind: Kind, era: str, transport: str
) -> None:
    with running(kind) as server:
        row = stack.connect(world.alice.principal, add_server(world.alice.principal, server.url))
        assert stack.is_open(row)
    assert (row.state, row.era, row.transport_used) == ("connected", era, transport)
    assert row.server_info["name"] == "demo"
    assert (row.attempt, row.last_error, row.held_by) == (0, None, stack.worker.id)
    assert row.tools.filter(public_name=f"{row.slug}__echo").exists()
    assert row.listings.count() == 4
    assert kinds_of(row)[0] == "state"
    assert kinds_of(row)[-1] == "state"
    assert CustomServer.unscoped.get(name=row.name).detected_era == era


def test_connecting_what_is_connected_changes_nothing(world: World, stack: Stack) -> None:
    with serving_in_thread(RawServer()) as server:
        row = stack.connect(world.alice.principal, add_server(world.alice.principal, server.url))
        again = stack.connect(world.alice.principal, row)
        assert (again.state, again.epoch) == ("connected", row.epoch)
        assert server.counts["POST initialize"] == 1


def test_many_waiting_for_one_connection_open_it_once(world: World, stack: Stack) -> None:
    with serving_in_thread(RawServer()) as server:
        row = connections.connect(
            world.alice.principal, add_server(world.alice.principal, server.url)
        )
        keeper, host = stack.worker.keeper, stack.worker.host
        for future in [host.submit(keeper.ensure_open(row.pk)) for _ in range(10)]:
            future.result(10)
        assert server.counts["POST initialize"] == 1


def test_a_401_asks_for_authorization_and_is_not_tried_again(world: World, stack: Stack) -> None:
    with serving_in_thread(NeedsToken()) as server:
        row = add_server(world.alice.principal, server.url, auth_type="bearer")
        connections.connect(world.alice.principal, row)
        error = stack.try_open(row)
    assert error is not None
    assert error.problem_code == "authorization_needed"
    assert (row.state, row.held_by, row.next_retry_at) == ("auth_required", "", None)
    assert row.last_error == {
        "message": "The server answered with HTTP status 401.",
        "code": "authorization_needed",
        "retryable": True,
        "hint": "Enter valid credentials for this server, then connect again.",
    }
    assert stack.timers.waits == []


def test_credentials_reach_the_server_and_open_it(world: World, stack: Stack) -> None:
    with serving_in_thread(NeedsToken()) as server:
        row = add_server(world.alice.principal, server.url, auth_type="bearer")
        connections.connect(world.alice.principal, row)
        stack.try_open(row)
        row = connections.set_credentials(world.alice.principal, row, {"token": "right"})
        assert row.state == "connecting"
        assert stack.open(row).state == "connected"
    assert b"right" not in bytes(row.sealed_credentials or b"")


def test_an_opening_with_old_credentials_does_not_count(world: World, stack: Stack) -> None:
    class Slow(NeedsToken):
        may_answer = threading.Event()

        async def serve(self, request: Request, wire: Wire) -> None:
            await asyncio.to_thread(self.may_answer.wait, 5)
            await super().serve(request, wire)

    server = Slow()
    with serving_in_thread(server):
        row = add_server(world.alice.principal, server.url, auth_type="bearer")
        connections.connect(world.alice.principal, row)
        old = stack.worker.host.submit(stack.worker.keeper.open(row.pk))
        eventually(lambda: server.requests, what="the server is asked")
        connections.set_credentials(world.alice.principal, row, {"token": "right"})
        stack.ask_to_open(row)
        server.may_answer.set()
        with pytest.raises(HubError):
            old.result(10)
        eventually(lambda: state_of(row) == "connected", what="the new credentials are used")


def test_a_call_waits_for_the_retry_instead_of_hammering(world: World, stack: Stack) -> None:
    with serving_in_thread(Refusing()) as server:
        row = add_server(world.alice.principal, server.url)
        connections.connect(world.alice.principal, row)
        stack.try_open(row)
        asked = len(server.requests)
        waiting = stack.worker.host.submit(stack.worker.keeper.ensure_open(row.pk))
        stack.sessions()
        assert len(server.requests) == asked
        stack.go_off()
        with pytest.raises(HubError):
            waiting.result(10)


def test_what_nobody_wants_cannot_be_opened_by_a_call(world: World, stack: Stack) -> None:
    row = add_server(world.alice.principal, "http://127.0.0.1:9/mcp")
    with pytest.raises(selectors.NotConnectedError):
        stack.worker.host.run(stack.worker.keeper.ensure_open(row.pk), 5)


@pytest.mark.parametrize(
    ("server", "code"), [(WebPage(), "not_mcp_endpoint"), (NeedsToken(), "authorization_needed")]
)
def test_upstream_text_never_gets_into_the_row_or_the_timeline(
    world: World, stack: Stack, server: RawServer, code: str
) -> None:
    with serving_in_thread(server):
        row = add_server(world.alice.principal, server.url)
        connections.connect(world.alice.principal, row)
        stack.try_open(row)
    seen = f"{row.last_error} {list(row.timeline.values_list('detail', flat=True))}"
    assert "secret text" not in seen
    assert code in seen


# --- moves and backoff --------------------------------------------------------------------------


@pytest.mark.parametrize("source", list(State))
@pytest.mark.parametrize("to", list(State))
def test_a_state_moves_only_along_the_legal_moves(world: World, source: State, to: State) -> None:
    row = server_factories.make_custom(world.alice, state=source.value)
    is_legal = to in MOVES[source]
    assert transition(row.pk, to) is is_legal
    row.refresh_from_db()
    assert row.state == (to if is_legal else source).value
    assert transition(row.pk, to, expect=[]) is False


def test_an_unreachable_server_is_tried_five_times_and_then_given_up(
    world: World, stack: Stack
) -> None:
    with serving_in_thread(Refusing()) as server:
        row = add_server(world.alice.principal, server.url)
        connections.connect(world.alice.principal, row)
        stack.try_open(row)
        assert (row.state, row.attempt) == ("connecting", 1)
        assert row.next_retry_at is not None
        for _ in range(5):
            stack.go_off()
    row.refresh_from_db()
    assert stack.timers.waits == [1.0, 2.0, 4.0, 8.0, 16.0]
    assert (row.state, row.held_by) == ("error", "")
    assert row.next_retry_at is None
    assert code_of(row) == "http_503"
    assert kinds_of(row).count("failed") == 6


def test_a_manual_connect_counts_from_zero_again(world: World, stack: Stack) -> None:
    with serving_in_thread(Refusing()) as server:
        row = add_server(world.alice.principal, server.url)
        connections.connect(world.alice.principal, row)
        stack.try_open(row)
        stack.go_off()
        row = connections.connect(world.alice.principal, row)
        assert (row.state, row.attempt, row.last_error) == ("connecting", 0, None)
        stack.try_open(row)
    assert stack.timers.waits == [1.0, 2.0, 1.0]


def test_without_auto_reconnect_the_first_failure_is_the_end(world: World, stack: Stack) -> None:
    with serving_in_thread(Refusing()) as server:
        row = add_server(world.alice.principal, server.url, auto_reconnect=False)
        connections.connect(world.alice.principal, row)
        stack.try_open(row)
    assert (row.state, stack.timers.waits) == ("error", [])


def test_a_web_page_is_an_error_at_once(world: World, stack: Stack) -> None:
    with serving_in_thread(WebPage()) as server:
        row = add_server(world.alice.principal, server.url)
        connections.connect(world.alice.principal, row)
        stack.try_open(row)
    assert (row.state, code_of(row), stack.timers.waits) == (
        "error",
        "not_mcp_endpoint",
        [],
    )


# --- ending -------------------------------------------------------------------------------------


def test_disconnect_closes_the_session_and_keeps_the_credentials(
    world: World, stack: Stack
) -> None:
    with serving_in_thread(NeedsToken()) as server:
        row = add_server(world.alice.principal, server.url, auth_type="bearer")
        connections.set_credentials(world.alice.principal, row, {"token": "right"})
        row = stack.connect(world.alice.principal, row)
        row = connections.disconnect(world.alice.principal, row)
        stack.close(row)
        assert not stack.is_open(row)
        assert server.counts["DELETE"] == 1
    eventually(partial(is_let_go, row), what="the lease is given back")
    assert (row.state, row.is_wanted) == ("disconnected", False)
    assert row.sealed_credentials
    row = connections.disconnect(world.alice.principal, row, forget=True)
    assert row.sealed_credentials is None


def test_disconnecting_while_it_opens_ends_disconnected(world: World, stack: Stack) -> None:
    with serving_in_thread(NeedsToken()) as server:
        row = connections.connect(
            world.alice.principal, add_server(world.alice.principal, server.url)
        )
        connections.disconnect(world.alice.principal, row)
        assert stack.try_open(row) is not None
    assert (row.state, stack.is_open(row)) == ("disconnected", False)


def test_a_late_disconnect_does_not_end_what_is_wanted_again(world: World, stack: Stack) -> None:
    with serving_in_thread(RawServer()) as server:
        row = stack.connect(world.alice.principal, add_server(world.alice.principal, server.url))
        connections.disconnect(world.alice.principal, row)
        connections.connect(world.alice.principal, row)
        stack.close(row)
        assert stack.open(row).state == "connected"
        assert stack.is_open(row)


def test_removing_a_custom_server_removes_it_and_closes_its_session(
    world: World, stack: Stack
) -> None:
    with serving_in_thread(RawServer()) as server:
        row = stack.connect(world.alice.principal, add_server(world.alice.principal, server.url))
        pk = row.pk
        connections.remove(world.alice.principal, row)
        row.pk = pk
        stack.close(row)
        assert not stack.is_open(row)
    assert not Connection.unscoped.filter(pk=pk).exists()
    assert not CustomServer.unscoped.exists()


def test_another_address_drops_credentials_session_and_catalog(world: World, stack: Stack) -> None:
    with serving_in_thread(NeedsToken()) as server, serving_in_thread(RawServer()) as evil:
        row = add_server(world.alice.principal, server.url, auth_type="bearer")
        connections.set_credentials(world.alice.principal, row, {"token": "right"})
        row = stack.connect(world.alice.principal, row)
        row = custom_servers.update_custom_server(world.alice.principal, row, {"url": evil.url})
        assert (row.state, row.is_wanted, row.sealed_credentials) == ("disconnected", False, None)
        assert (row.tools.count(), row.listings.count()) == (0, 0)
        stack.close(row)
        stack.connect(world.alice.principal, row)
        assert [r.headers.get("authorization") for r in evil.requests] == [None] * len(
            evil.requests
        )
