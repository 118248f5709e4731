"""A TCP proxy that can be told to misbehave: one link per pair of processes, all on one thread."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

CHUNK = 65_536
DRIP_SECONDS = 0.02
RESET = struct.pack("ii", 1, 0)


class Mode(Enum):
    """What a link does with bytes and with who connects."""

    PASS = auto()
    DELAY = auto()
    DRIP = auto()
    BLACK_HOLE = auto()
    """Connections stand and open, nothing arrives; it does when the link passes again."""
    MUTE = auto()
    """What is asked arrives, what is answered does not; it does when the link passes again."""
    RESET = auto()
    """Connections are reset, those that stand and those that come."""
    DOWN = auto()
    """Nothing listens; what stood is reset."""


@dataclass(slots=True, eq=False)
class Link:
    """One listening port and where it leads; `mode` may change at any time."""

    name: str
    target: tuple[str, int]
    port: int = 0
    mode: Mode = Mode.PASS
    delay: float = 0.2
    accepted: int = 0
    writers: set[asyncio.StreamWriter] = field(default_factory=set)
    healed: asyncio.Event = field(default_factory=asyncio.Event)
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    server: asyncio.Server | None = None

    async def listen(self) -> None:
        self.healed.set()
        self.answered.set()
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]

    async def become(self, mode: Mode) -> None:
        """Change the mode; every connection feels it at once."""
        self.mode = mode
        _open(self.healed, mode is not Mode.BLACK_HOLE)
        _open(self.answered, mode not in {Mode.BLACK_HOLE, Mode.MUTE})
        if mode in {Mode.RESET, Mode.DOWN}:
            for writer in tuple(self.writers):
                _reset(writer)
        if mode is Mode.DOWN and self.server is not None:
            self.server.close()
            self.server = None
        elif mode is not Mode.DOWN and self.server is None:
            await self.listen()
            self.mode = mode

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        if self.mode is Mode.RESET:
            _reset(writer)
            return
        self.writers.add(writer)
        other = None
        try:
            await self.healed.wait()
            if writer.transport.is_closing():  # reset while it waited: it goes nowhere
                return
            far, other = await asyncio.open_connection(*self.target)
            self.writers.add(other)
            pumps = (
                self._pump(reader, other, self.healed),
                self._pump(far, writer, self.answered),
            )
            await asyncio.gather(*pumps)
        except OSError:
            _reset(writer)
        finally:
            for each in (writer, other):
                if each is not None:
                    self.writers.discard(each)
                    each.close()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event
    ) -> None:
        try:
            while data := await reader.read(CHUNK):
                await gate.wait()
                if writer.transport.is_closing():
                    return
                await self._pass(data, writer)
            await gate.wait()
            writer.write_eof()
        except OSError:
            writer.transport.abort()

    async def _pass(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        if self.mode is Mode.DELAY:
            await asyncio.sleep(self.delay)
        if self.mode is not Mode.DRIP:
            writer.write(data)
            await writer.drain()
            return
        for position in range(len(data)):
            writer.write(data[position : position + 1])
            await writer.drain()
            await asyncio.sleep(DRIP_SECONDS)


def _open(gate: asyncio.Event, is_open: bool) -> None:
    if is_open:
        gate.set()
    else:
        gate.clear()


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with RST instead of FIN."""
    found = writer.get_extra_info("socket")
    if found is not None:
        with contextlib.suppress(OSError):
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


async def _end_others() -> None:
    """Cancel what still runs on this loop and wait for it."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class FaultProxy:
    """Owns the thread of all links; its methods are for other threads."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.links: dict[str, Link] = {}

    def link(self, name: str, host: str, port: int) -> Link:
        """Open a link to a place; its port is free and stays the same."""
        made = Link(name=name, target=(host, port))
        self._run(made.listen())
        self.links[name] = made
        return made

    def become(self, mode: Mode, *names: str) -> None:
        """Change every link whose name ends with one of `names`, all links by default."""
        for name, link in self.links.items():
            if not names or name.endswith(names):
                self._run(link.become(mode))

    def close(self) -> None:
        """End every connection, then the thread and its loop."""
        self.become(Mode.DOWN)
        self._run(_end_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(5)
