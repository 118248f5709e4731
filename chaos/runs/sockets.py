"""Event sockets whose readers stop, or whose Redis goes: R35 and R36."""

from __future__ import annotations

import contextlib
import json
import secrets
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from bench.processes import resident_kib
from chaos.load import loaded
from chaos.stack import Stack
from chaos.verdict import run
from tests.live.api import Api
from tests.waiting import eventually

EVENTS = 1500
SOCKETS = 500


def listen(api: Api, **options: Any) -> ClientConnection:
    """Open an event socket with a ticket and subscribe to everything."""
    ticket = api.http.post("/api/v1/ws-tickets", json={}).json()["ticket"]
    url = f"{api.http.base_url}".replace("http", "ws", 1).rstrip("/") + "/ws/v1/events"
    names: Any = ["mcphub.v1", f"mcphub.ticket.{ticket}"]
    socket: ClientConnection = connect(url, subprotocols=names, **options)
    assert json.loads(socket.recv(timeout=10))["type"] == "hello"
    socket.send(json.dumps({"type": "subscribe", "topics": ["servers", "calls", "traces"]}))
    return socket


@run("R35", "a socket that stops reading: ≤ 1 MiB of the server's memory, other sockets on time")
def stop_reading(stack: Stack, _rounds: int) -> str:
    with loaded(stack) as load, contextlib.ExitStack() as open_ones:
        api = load.apis[0]
        deaf = open_ones.enter_context(listen(api, max_queue=1))
        heard = open_ones.enter_context(listen(api))
        warm = load.send(40, ms=1)
        load.ends(warm)
        before = resident_kib(stack.programs["web1"].pid)
        worst = 0.0
        for _ in range(EVENTS // 60):
            keys = load.send(20, ms=1)
            load.ends(keys)
            started = time.monotonic()
            drain(heard)
            worst = max(worst, time.monotonic() - started)
        grown = (resident_kib(stack.programs["web1"].pid) - before) / 1024
        found = load.sound()
        assert worst < 2.0, f"the other socket was {worst:.1f} s late"
        assert grown < 30, f"web grew by {grown:.1f} MiB"
        with contextlib.suppress(Exception):
            deaf.close()
    return (
        f"{sum(found.values())} calls, web +{grown:.1f} MiB, the other socket ≤ {worst:.2f} s late"
    )


def drain(socket: ClientConnection) -> None:
    """Read what is there."""
    with contextlib.suppress(TimeoutError):
        while True:
            socket.recv(timeout=0.1)


@run("R36", f"{SOCKETS} sockets, Redis killed: all on again or closed ≤ 10 s, last state true")
def lose_redis(stack: Stack, _rounds: int) -> str:
    with loaded(stack) as load, ThreadPoolExecutor(SOCKETS) as threads:
        sockets = list(load.threads.map(lambda n: listen(load.apis[n % 2]), range(SOCKETS)))
        list(threads.map(drain, sockets))
        stack.programs["redis"].signal(signal.SIGKILL)
        eventually(stack.is_whole, 20.0, "the stack is whole")
        started = time.monotonic()
        name = f"seen-{secrets.token_hex(3)}"

        def stir() -> bool:
            response = load.apis[0].http.patch(f"/api/v1/servers/{load.slug}", json={"name": name})
            return response.status_code == 200

        eventually(stir, 10.0, "a change after the restart")
        ends = list(threads.map(lambda socket: follow(socket, name), sockets))
        took = time.monotonic() - started
        list(threads.map(ClientConnection.close, sockets))
        assert "silent" not in ends, f"{ends.count('silent')} sockets neither hear nor closed"
        assert took <= 12.0, f"{took:.1f} s"
    return f"{ends.count('heard')} heard, {ends.count('closed')} closed to come back, {took:.1f} s"


def follow(socket: ClientConnection, name: str) -> str:
    """Wait for the change, or for a close that asks to come back."""
    deadline = time.monotonic() + 10.0
    while time.monotonic() < deadline:
        try:
            event = json.loads(socket.recv(timeout=0.5))
        except TimeoutError:
            continue
        except ConnectionClosed as exc:
            code = exc.rcvd.code if exc.rcvd else 0
            return "closed" if code in {1012, 1013} else f"closed {code}"
        if event["type"] == "resync" or event.get("server", {}).get("name") == name:
            return "heard"
    return "silent"
