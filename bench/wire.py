"""A minimal HTTP/1.1 client for load: one keep-alive connection, loopback only."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit


class Wire:
    """One connection; cheap, so that the load generator is not what is measured."""

    def __init__(self, base: str, token: str, headers: Mapping[str, str] | None = None) -> None:
        parts = urlsplit(base)
        if parts.hostname not in {"127.0.0.1", "localhost", "::1"}:
            raise SystemExit("The benchmark only calls loopback addresses.")
        self._host, self._port = parts.hostname, parts.port or 80
        self._head = (
            f"Host: {self._host}:{self._port}\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: application/json\r\n"
            + "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        )
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(
        self, method: str, path: str, body: Any = None, *, seconds: float = 60.0
    ) -> tuple[int, bytes]:
        """Send one request, return (status, body)."""
        return await asyncio.wait_for(self._ask(method, path, body), seconds)

    async def _ask(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        if self._writer is None or self._reader is None:
            self._reader, self._writer = await asyncio.open_connection(
                self._host, self._port, limit=1 << 20
            )
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\n{self._head}Content-Length: {len(content)}\r\n\r\n"
        self._writer.write(head.encode() + content)
        raw = await self._reader.readuntil(b"\r\n\r\n")
        lines = raw.decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines[1:] if line)
        }
        answer = await self._body(self._reader, headers)
        if headers.get("connection", "").lower() == "close":
            await self.close()
        return int(lines[0].split()[1]), answer

    async def _body(self, reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding") != "chunked":
            return await reader.readexactly(int(headers.get("content-length", 0)))
        parts = []
        while size := int(await reader.readline(), 16):
            parts.append(await reader.readexactly(size))
            await reader.readline()
        await reader.readline()
        return b"".join(parts)

    async def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None
