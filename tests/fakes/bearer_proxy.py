"""A loopback proxy that adds a Bearer credential, for clients that cannot send one."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerProxy:
    """Everything else passes as it is; Host and Origin name the port of the target."""

    host: str
    port: int
    token: str

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own_port = writer.get_extra_info("sockname")[1]
        target_reader, target = await asyncio.open_connection(self.host, self.port)
        both = [
            asyncio.ensure_future(self._requests(reader, target, own_port)),
            asyncio.ensure_future(copy(target_reader, writer)),
        ]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)
            target.close()
            writer.close()

    async def _requests(
        self, reader: asyncio.StreamReader, target: asyncio.StreamWriter, own_port: int
    ) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                first, *lines = (await reader.readuntil(END)).split(b"\r\n")
                lines = [self._retargeted(line, own_port) for line in lines if line]
                lines.append(b"Authorization: Bearer " + self.token.encode())
                target.write(b"\r\n".join((first, *lines)) + END)
                target.write(await body_of(reader, lines))
                await target.drain()

    def _retargeted(self, line: bytes, own_port: int) -> bytes:
        if line.lower().startswith((b"host:", b"origin:")):
            return line.replace(f":{own_port}".encode(), f":{self.port}".encode())
        return line


async def body_of(reader: asyncio.StreamReader, lines: list[bytes]) -> bytes:
    """Read the body of a request, of a known length or in chunks, as it is on the wire."""
    headers = {name.strip().lower(): value.strip() for name, _, value in map(split, lines)}
    if headers.get(b"transfer-encoding") != b"chunked":
        return await reader.readexactly(int(headers.get(b"content-length", 0)))
    body = b""
    while True:
        size = await reader.readuntil(b"\r\n")
        body += size + await reader.readexactly(int(size, 16) + 2)
        if int(size, 16) == 0:
            return body


def split(line: bytes) -> tuple[bytes, bytes, bytes]:
    return line.partition(b":")


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while part := await reader.read(65_536):
            writer.write(part)
            await writer.drain()


@contextmanager
def adding_bearer(url: str, token: str) -> Iterator[str]:
    """Serve until the block ends; yields the URL that stands for `url`, on `localhost`."""
    parts, loop = urlsplit(url), asyncio.new_event_loop()
    assert parts.hostname is not None
    assert parts.port is not None
    proxy = BearerProxy(host=parts.hostname, port=parts.port, token=token)
    ready, stop, port = threading.Event(), asyncio.Event(), list[int]()

    tasks = set[asyncio.Task[None]]()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = loop.create_task(proxy.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        task.add_done_callback(lambda _: writer.close())  # also when it never began

    async def live() -> None:
        listener = await asyncio.start_server(accept, "localhost", 0, limit=1 << 20)
        port.append(listener.sockets[0].getsockname()[1])
        ready.set()
        await stop.wait()
        listener.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the closed connections let go of their sockets

    thread = threading.Thread(target=loop.run_until_complete, args=(live(),), daemon=True)
    thread.start()
    if not ready.wait(5):
        raise RuntimeError("the proxy did not start")
    try:
        yield f"http://localhost:{port[0]}{parts.path}"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(5)
        loop.close()
