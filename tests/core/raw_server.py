"""A loopback server that writes bytes: any answer, any silence; it records what reached it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

Answer: TypeAlias = "bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]"


def response(
    body: bytes = b"ok", *, status: int = 200, headers: tuple[str, ...] = (), keep: bool = True
) -> bytes:
    lines = [
        f"HTTP/1.1 {status} X",
        f"Content-Length: {len(body)}",
        *(() if keep else ("Connection: close",)),
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@dataclass
class RawServer:
    """One listener; `answers` are used in order, the last one again and again."""

    answers: list[Answer]
    port: int = 0
    connections: int = 0
    requests: list[str] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                await self._exchange(reader, writer)
        self.ended.set()
        writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        sizes = [
            int(line.split(":")[1])
            for line in head.split("\r\n")
            if line.lower().startswith("content-length:")
        ]
        await reader.readexactly(sum(sizes))
        self.requests.append(head)
        answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
        if callable(answer):
            await answer(writer)
        else:
            writer.write(answer)
        await writer.drain()


@asynccontextmanager
async def raw_server(
    *answers: Answer, tls: ssl.SSLContext | None = None
) -> AsyncIterator[RawServer]:
    server = RawServer(list(answers) or [response()])
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
