"""Adoption: another worker goes on with the session that its predecessor left at the server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from redis import Redis

from connectors.models import Connection
from connectors.models.sealed import open_json
from connectors.queue import workers
from connectors.services import connections
from mcphub.core.crypto import CredentialUnreadableError
from tests.connectors.session_stack import SECONDS, Stack, add_server, kinds_of, running_worker
from tests.fakes.mcp_servers import Kind, running
from tests.fakes.raw_server import RawServer, Request, Wire, serving_in_thread
from tests.waiting import eventually
from tests.world import World

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def other(transactional_db: None, redis: Redis) -> Iterator[Stack]:
    """The worker that takes over."""
    workers.forget_known()
    with running_worker() as stack:
        yield stack


class Counting(RawServer):
    """Knows the sessions that it gave out; forgets them when told to."""

    given = 0
    is_busy = False

    async def on_initialize(self, request: Request, wire: Wire) -> None:
        self.given += 1
        headers = [("Mcp-Session-Id", f"session-{self.given}")]
        body = {"jsonrpc": "2.0", "id": request.id, "result": self.initialize_result()}
        await wire.answer(body, headers=headers)

    async def on_message(self, request: Request, wire: Wire) -> None:
        named = request.headers.get("mcp-session-id")
        if self.is_busy:
            await wire.answer(b"", status=503)
        elif named is not None and named != f"session-{self.given}":
            await wire.answer(b"", status=404)
        else:
            await super().on_message(request, wire)


def connected(world: World, stack: Stack, url: str) -> Connection:
    return stack.connect(world.alice.principal, add_server(world.alice.principal, url))


def kill(stack: Stack, row: Connection) -> None:
    """Let go of everything as a killed process does: nothing is said to the server."""
    stack.worker.host.run(stack.worker.host.leave(row.pk), SECONDS)


def take_over(other: Stack, gone: Stack, row: Connection) -> None:
    keeper = other.worker.keeper
    assert other.worker.host.run(keeper.take_over(gone.worker.id), SECONDS) == 1
    eventually(lambda: other.is_open(row), what="the session is taken over")
    eventually(
        lambda: Connection.unscoped.get(pk=row.pk).state == "connected", what="it is connected"
    )


def test_a_session_is_taken_over_without_a_new_handshake(world: World, other: Stack) -> None:
    with serving_in_thread(Counting()) as server, running_worker() as first:
        row = connected(world, first, server.url)
        kill(first, row)
        take_over(other, first, row)
        assert other.call(row, "echo") is None
        assert server.counts["POST initialize"] == 1
        assert server.counts["DELETE"] == 0
        assert "session_adopted" in kinds_of(row)
        call = server.of("tools/call")[-1]
        assert call.headers["mcp-session-id"] == "session-1"
        assert call.headers["mcp-protocol-version"] == "2025-11-25"


def test_request_ids_are_not_used_twice_in_an_adopted_session(world: World, other: Stack) -> None:
    with serving_in_thread(Counting()) as server, running_worker() as first:
        row = connected(world, first, server.url)
        kill(first, row)
        take_over(other, first, row)
        ids = [request.id for request in server.requests if request.id is not None]
        assert len(ids) == len(set(map(str, ids)))


def test_only_a_session_that_the_server_forgot_is_initialized_again(
    world: World, other: Stack
) -> None:
    server = Counting()
    with serving_in_thread(server), running_worker() as first:
        row = connected(world, first, server.url)
        kill(first, row)
        server.given = 7  # as after a restart
        take_over(other, first, row)
        assert server.counts["POST initialize"] == 2
        assert "session_forgotten" in kinds_of(row)
        assert other.call(row, "echo") is None


def test_an_outage_says_nothing_about_the_session(world: World, other: Stack) -> None:
    server = Counting()
    with serving_in_thread(server), running_worker() as first:
        row = connected(world, first, server.url)
        kill(first, row)
        server.is_busy = True
        keeper = other.worker.keeper
        other.worker.host.run(keeper.take_over(first.worker.id), SECONDS)
        eventually(lambda: other.timers.is_set, what="another attempt is planned")
        server.is_busy = False
        other.go_off()
        eventually(lambda: other.is_open(row), what="the session is taken over")
        assert server.counts["POST initialize"] == 1


def test_a_worker_that_drains_leaves_its_sessions_to_the_next(world: World, other: Stack) -> None:
    with serving_in_thread(Counting()) as server:
        with running_worker() as first:
            row = connected(world, first, server.url)
        assert server.counts["DELETE"] == 0
        other.open(row)
        assert server.counts["POST initialize"] == 1
        assert other.call(row, "echo") is None


def test_a_member_who_disconnects_ends_the_session_at_the_server(
    world: World, other: Stack
) -> None:
    with serving_in_thread(Counting()) as server:
        row = connected(world, other, server.url)
        connections.disconnect(world.alice.principal, row)
        eventually(lambda: server.counts["DELETE"] == 1, what="the session is ended")
        row.refresh_from_db()
        assert row.sealed_session is None


def test_other_credentials_are_never_used_in_an_old_session(world: World, other: Stack) -> None:
    with serving_in_thread(Counting()) as server, running_worker() as first:
        row = connected(world, first, server.url)
        kill(first, row)
        server_row = row.custom_server
        assert server_row is not None
        server_row.relay_elicitation = False  # what was declared is different as well
        server_row.save()
        take_over(other, first, row)
        assert server.counts["POST initialize"] == 2


def test_the_stored_session_is_sealed_to_its_connection(world: World, other: Stack) -> None:
    with serving_in_thread(Counting()) as server:
        row = connected(world, other, server.url)
        assert row.sealed_session is not None
        assert b"session-1" not in bytes(row.sealed_session)
        assert open_json(row, "sealed_session")["session_id"] == "session-1"
        row.id = Connection().pk
        with pytest.raises(CredentialUnreadableError):
            open_json(row, "sealed_session")


def test_a_server_built_on_the_sdk_goes_on_with_the_session(world: World, other: Stack) -> None:
    with running(Kind.LEGACY) as server, running_worker() as first:
        row = connected(world, first, server.url)
        kill(first, row)
        take_over(other, first, row)
        assert other.call(row, "fail") is None
        assert "session_adopted" in kinds_of(row)
