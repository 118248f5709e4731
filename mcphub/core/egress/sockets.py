"""One outbound TCP or TLS connection as httpcore2 wants it, written straight on asyncio.

It costs less than the anyio stream, sends head and body of a request in one write, knows whether
anything was sent, and can be ended from outside when a deadline passes.
"""

from __future__ import annotations

import asyncio
import select
import ssl
from typing import Any

import httpcore2

from mcphub.core.egress.addresses import Address

HIGH_WATER = 256 << 10
SEND_AT = 64 << 10
TLS_SHUTDOWN_SECONDS = 2.0


class SocketStream(asyncio.Protocol, httpcore2.AsyncNetworkStream):
    """A connection; reads and writes come from one task at a time."""

    def __init__(self) -> None:
        self.has_sent = False
        self.is_late = False
        self.is_ended = False
        self._is_broken = False
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._to_send: list[bytes] = []
        self._to_send_size = 0
        self._is_paused = False
        self._is_blocked = False
        self._waiter: asyncio.Future[None] | None = None

    # --- what the caller does -----------------------------------------------------------------

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109  (httpcore2's interface; the deadline ends the stream from outside)
        if self._to_send:
            await self._send()
        while not self._received:
            self._check()
            if self.is_ended:
                return b""
            await self._wait()
        taken = bytes(self._received[:max_bytes])
        del self._received[:max_bytes]
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        return taken

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109  (as above)
        """Keep `buffer` until there is much of it or an answer is awaited."""
        if not buffer:
            return
        self._to_send.append(buffer)
        self._to_send_size += len(buffer)
        if self._to_send_size >= SEND_AT:
            await self._send()

    async def aclose(self) -> None:
        self.close()

    def close(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()

    def abort(self) -> None:
        """Drop the connection at once, without the good-byes of TLS."""
        if self._transport is not None:
            self._transport.abort()
        self._is_broken = self.is_ended = True
        self._wake()

    def expire(self) -> None:
        """End the exchange because its deadline has passed."""
        self.is_late = True
        self.abort()

    def is_stale(self) -> bool:
        """Whether an idle connection is of no more use: closed, or something came unasked."""
        if self.is_ended or self._received or self._transport is None:
            return True
        if self._transport.is_closing():
            return True
        socket = self._transport.get_extra_info("socket")
        if socket is None or socket.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(socket.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def get_extra_info(self, info: str) -> Any:
        return self.is_stale() if info == "is_readable" else None

    async def _send(self) -> None:
        self._check()
        if self._transport is None or self.is_ended or self._transport.is_closing():
            raise httpcore2.WriteError("closed")
        chunks, self._to_send, self._to_send_size = self._to_send, [], 0
        self.has_sent = True
        self._transport.write(chunks[0] if len(chunks) == 1 else b"".join(chunks))
        while self._is_blocked and not self.is_ended:
            await self._wait()

    def _check(self) -> None:
        if self.is_late:
            raise httpcore2.ReadTimeout("deadline")
        if self._is_broken:  # an end of file would pass for the end of a body without length
            raise httpcore2.ReadError("broken")

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # --- what the event loop tells ------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # the loop passes a Transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) > HIGH_WATER and not self._is_paused and self._transport:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        self.is_ended = True
        self._wake()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_broken = self._is_broken or exc is not None
        self.is_ended = True
        self._wake()

    def pause_writing(self) -> None:
        self._is_blocked = True

    def resume_writing(self) -> None:
        self._is_blocked = False
        self._wake()


async def connect(
    address: Address, port: int, *, host: str, tls: ssl.SSLContext | None
) -> SocketStream:
    """Connect to the address; TLS checks the certificate against `host`. Raises OSError."""
    loop = asyncio.get_running_loop()
    if tls is None:
        _, stream = await loop.create_connection(SocketStream, str(address), port)
        return stream
    _, stream = await loop.create_connection(
        SocketStream,
        str(address),
        port,
        ssl=tls,
        server_hostname=host,
        ssl_shutdown_timeout=TLS_SHUTDOWN_SECONDS,
    )
    return stream
