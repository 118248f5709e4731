"""The session host: owner tasks, shared openings, faults that end one session alone, draining."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from connectors.server_spec import ServerSpec
from connectors.upstream.host import HostLimits, SessionHost, SessionKey
from connectors.upstream.session import Opened, SeenMessage, UpstreamRequest
from mcphub.core.clock import Deadline
from mcphub.core.egress import policy_from_settings
from mcphub.core.errors import HubError, UnavailableError, UpstreamError
from mcphub.core.types import JSONObject
from tests.fakes import raw_server
from tests.fakes.raw_server import RawServer, Request, Wire, serving_in_thread
from tests.waiting import eventually

SECONDS = 10.0


@dataclass
class Told:
    """A listener that remembers."""

    opened: list[SessionKey] = field(default_factory=list)
    lost: list[tuple[SessionKey, str]] = field(default_factory=list)
    notifications: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    methods: list[object] = field(default_factory=list)

    def on_opened(self, key: SessionKey, opened: Opened) -> None:
        self.opened.append(key)

    def on_lost(self, key: SessionKey, error: HubError) -> None:
        self.lost.append((key, error.problem_code))

    def on_notification(
        self, key: SessionKey, method: str, params: JSONObject, asker: UpstreamRequest | None
    ) -> None:
        self.notifications.append(method)

    def on_step(self, key: SessionKey, kind: str, detail: JSONObject) -> None:
        self.steps.append(kind)

    def on_message(self, key: SessionKey, seen: SeenMessage) -> None:
        self.methods.append(seen.message and seen.message.get("method"))

    async def on_request(
        self, key: SessionKey, method: str, params: JSONObject, asker: UpstreamRequest | None
    ) -> JSONObject:
        return {}


class Hanging(RawServer):
    """Never answers."""

    async def serve(self, request: Request, wire: Wire) -> None:
        await wire.until_gone()


class Forgetting(RawServer):
    """Knows no session at its second call."""

    async def on_call(self, request: Request, wire: Wire) -> None:
        await wire.answer(b"", status=404)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def host(told: Told) -> Iterator[SessionHost]:
    host = SessionHost(policy=policy_from_settings(), limits=HostLimits(sessions=3))
    host.start(told)
    yield host
    host.drain(3)


def spec(url: str, **fields: object) -> ServerSpec:
    ids = {name: uuid.uuid4() for name in ("connection_id", "tenant_id", "member_id")}
    return ServerSpec(**ids, slug="raw", url=url, **fields)  # type: ignore[arg-type]  # a test's fields


def opened(host: SessionHost, wish: ServerSpec, epoch: int = 1) -> Opened:
    return host.run(host.open(wish, epoch), SECONDS)


def sessions(host: SessionHost) -> dict[uuid.UUID, int]:
    async def read() -> dict[uuid.UUID, int]:
        return host.sessions()

    return host.run(read(), SECONDS)


def call(host: SessionHost, wish: ServerSpec) -> JSONObject:
    request = UpstreamRequest(
        method="tools/call", params={"name": "echo"}, deadline=Deadline.after(5)
    )
    return host.run(host.request(wish.connection_id, request), SECONDS)


def test_a_session_opens_answers_and_closes(host: SessionHost, told: Told) -> None:
    with serving_in_thread(RawServer()) as server:
        wish = spec(server.url)
        assert opened(host, wish).server_info == {"name": "raw", "version": "0"}
        assert call(host, wish) == raw_server.text_result()
        host.run(host.close(wish.connection_id), SECONDS)
        assert server.counts["DELETE"] == 1
    assert [key.connection_id for key in told.opened] == [wish.connection_id]
    assert "tools/call" in told.methods
    assert sessions(host) == {}
    assert told.lost == []


def test_concurrent_openings_of_one_epoch_share_a_session(host: SessionHost) -> None:
    with serving_in_thread(RawServer()) as server:
        wish = spec(server.url)

        async def many() -> None:
            await asyncio.gather(*(host.open(wish, 1) for _ in range(10)))

        host.run(many(), SECONDS)
        assert server.counts["POST initialize"] == 1


def test_a_newer_epoch_replaces_the_session(host: SessionHost) -> None:
    with serving_in_thread(RawServer()) as server:
        wish = spec(server.url)
        opened(host, wish, 1)
        opened(host, wish, 2)
        assert sessions(host) == {wish.connection_id: 2}
        assert server.counts["DELETE"] == 1


def test_a_failed_opening_leaves_nothing_behind(host: SessionHost, told: Told) -> None:
    class Refusing(RawServer):
        async def serve(self, request: Request, wire: Wire) -> None:
            await wire.answer(b"", status=503)

    with serving_in_thread(Refusing()) as server:
        wish = spec(server.url)
        with pytest.raises(UpstreamError) as caught:
            opened(host, wish)
    assert caught.value.problem_code == "http_503"
    assert (sessions(host), told.opened, told.lost) == ({}, [], [])
    with pytest.raises(UpstreamError) as unsent:
        call(host, wish)
    assert (unsent.value.problem_code, unsent.value.was_sent) == ("session_lost", False)


def test_a_hanging_server_ends_at_its_connect_timeout(host: SessionHost) -> None:
    with serving_in_thread(Hanging()) as server, pytest.raises(UpstreamError) as caught:
        opened(host, spec(server.url, connect_timeout=0.3))
    assert caught.value.problem_code == "timeout"


def test_closing_stops_an_opening(host: SessionHost) -> None:
    with serving_in_thread(Hanging()) as server:
        wish = spec(server.url)
        opening = host.submit(host.open(wish, 1))
        eventually(lambda: server.requests, what="the server is asked")
        host.run(host.close(wish.connection_id), SECONDS)
        with pytest.raises(UpstreamError) as caught:
            opening.result(SECONDS)
    assert caught.value.problem_code == "session_lost"


def test_a_lost_session_is_told_once_and_its_neighbour_lives(host: SessionHost, told: Told) -> None:
    with serving_in_thread(Forgetting()) as bad, serving_in_thread(RawServer()) as good:
        lost, kept = spec(bad.url), spec(good.url)
        opened(host, lost)
        opened(host, kept)
        with pytest.raises(UpstreamError):
            call(host, lost)
        with pytest.raises(UpstreamError):
            call(host, lost)
        assert call(host, kept) == raw_server.text_result()
        assert [(key.connection_id, code) for key, code in told.lost] == [
            (lost.connection_id, "session_lost")
        ]
        assert sessions(host) == {kept.connection_id: 1}


def test_a_full_host_takes_no_more(host: SessionHost) -> None:
    with serving_in_thread(RawServer()) as server:
        for _ in range(3):
            opened(host, spec(server.url))
        with pytest.raises(UnavailableError) as caught:
            opened(host, spec(server.url))
    assert caught.value.problem_code == "worker_full"


def test_draining_closes_every_session(told: Told) -> None:
    host = SessionHost(policy=policy_from_settings())
    host.start(told)
    with serving_in_thread(RawServer()) as server:
        for _ in range(5):
            opened(host, spec(server.url))
        host.drain(3)
        assert server.counts["DELETE"] == 5
    with pytest.raises(UnavailableError):
        host.run(host.close(uuid.uuid4()), SECONDS)


def test_a_host_starts_once(host: SessionHost, told: Told) -> None:
    with pytest.raises(RuntimeError):
        host.start(told)
