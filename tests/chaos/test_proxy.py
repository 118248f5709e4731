"""The fault proxy does what its modes say."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from chaos.proxy import FaultProxy, Link, Mode


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        with suppress(OSError):
            while data := self.request.recv(4096):
                self.request.sendall(data)


@pytest.fixture
def proxy() -> Iterator[FaultProxy]:
    made = FaultProxy()
    yield made
    made.close()


@pytest.fixture
def link(proxy: FaultProxy) -> Iterator[Link]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        server.block_on_close = False
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield proxy.link("web1>echo", *server.server_address[:2])  # type: ignore[arg-type]  # an IPv4 pair
        server.shutdown()


def client(link: Link) -> socket.socket:
    return socket.create_connection(("127.0.0.1", link.port), timeout=2)


def ask(connection: socket.socket, text: bytes = b"hello") -> bytes:
    connection.sendall(text)
    return connection.recv(4096)


def ask_anew(link: Link) -> bytes:
    with client(link) as connection:
        return ask(connection)


def test_bytes_pass_both_ways(link: Link) -> None:
    with client(link) as connection:
        assert ask(connection) == b"hello"


def test_a_black_hole_keeps_what_was_sent_until_it_passes_again(
    proxy: FaultProxy, link: Link
) -> None:
    with client(link) as connection:
        assert ask(connection) == b"hello"
        proxy.become(Mode.BLACK_HOLE, ">echo")
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            ask(connection, b"late")
        connection.settimeout(2)
        proxy.become(Mode.PASS)
        assert connection.recv(4096) == b"late"


def test_a_mute_link_carries_questions_and_keeps_answers_until_it_passes_again(
    proxy: FaultProxy, link: Link
) -> None:
    with client(link) as connection:
        assert ask(connection) == b"hello"
        proxy.become(Mode.MUTE, ">echo")
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            ask(connection, b"late")
        connection.settimeout(2)
        proxy.become(Mode.PASS)
        assert connection.recv(4096) == b"late"


def test_reset_ends_what_stands_and_what_comes(proxy: FaultProxy, link: Link) -> None:
    with client(link) as connection:
        ask(connection)
        proxy.become(Mode.RESET)
        with pytest.raises(ConnectionError):
            connection.recv(1)
    with pytest.raises(ConnectionError):
        ask_anew(link)


def test_down_refuses_and_the_same_port_is_back_afterwards(proxy: FaultProxy, link: Link) -> None:
    proxy.become(Mode.DOWN, ">echo")
    with pytest.raises(ConnectionRefusedError):
        client(link)
    proxy.become(Mode.PASS, ">echo")
    with client(link) as connection:
        assert ask(connection) == b"hello"


def test_delay_holds_every_piece_back(proxy: FaultProxy, link: Link) -> None:
    proxy.become(Mode.DELAY)
    started = time.monotonic()
    with client(link) as connection:
        assert ask(connection) == b"hello"
    assert time.monotonic() - started >= 2 * link.delay


def test_drip_lets_bytes_through_one_by_one(proxy: FaultProxy, link: Link) -> None:
    proxy.become(Mode.DRIP)
    with client(link) as connection:
        assert ask(connection) == b"h"


def test_only_the_links_that_are_named_change(proxy: FaultProxy, link: Link) -> None:
    proxy.become(Mode.DOWN, ">database")
    with client(link) as connection:
        assert ask(connection) == b"hello"
