"""Guarded connections: resolve, check every answer, connect to a checked address, keep for reuse.

Connections are kept per origin (scheme, host name, port), so a TLS connection of one name is never
used for another, and every new connection is resolved and checked again (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import httpcore2
import httpx2

from mcphub.core.clock import Deadline
from mcphub.core.egress import sockets
from mcphub.core.egress.addresses import Address, parse
from mcphub.core.egress.policy import EgressPolicy
from mcphub.core.egress.targets import Target
from mcphub.core.errors import BlockedUrlError, UpstreamError

CONNECT_SECONDS = 10.0
# Below the 5 s after which uvicorn and Node close an idle connection: a request must not race that.
KEEP_SECONDS = 4.0
KEEP_PER_ORIGIN = 64
HEADERS_MAX = 32 << 10
ADDRESSES_MAX = 4
RESOLVER_THREADS = 8

Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]


class _Http(httpcore2.AsyncHTTP11Connection):
    MAX_INCOMPLETE_EVENT_SIZE = HEADERS_MAX


@dataclass(slots=True)
class Connection:
    """One open HTTP/1.1 connection."""

    origin: tuple[str, str, int]
    stream: sockets.SocketStream
    http: _Http
    keep_until: float = 0.0


@lru_cache(maxsize=1)
def tls_context() -> ssl.SSLContext:
    """Return the process's TLS context: the system's trusted roots, HTTP/1.1 only."""
    context = httpx2.create_ssl_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


@lru_cache(maxsize=1)
def _resolver_threads() -> ThreadPoolExecutor:
    """Threads of their own, so that a name server that hangs holds up nothing but names."""
    return ThreadPoolExecutor(max_workers=RESOLVER_THREADS, thread_name_prefix="resolve")


async def resolve_by_system(host: str, port: int) -> list[str]:
    """Return the addresses of `host` in the system's order. Raises OSError."""
    found = await asyncio.get_running_loop().run_in_executor(
        _resolver_threads(), _getaddrinfo, host, port
    )
    return list(dict.fromkeys(found))


def _getaddrinfo(host: str, port: int) -> list[str]:
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in entries]


class Connections:
    """The connections of one event loop."""

    def __init__(
        self,
        policy: EgressPolicy,
        *,
        resolve: Resolve | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._policy = policy
        self._resolve = resolve or resolve_by_system
        self._tls = tls
        self._idle: dict[tuple[str, str, int], list[Connection]] = {}
        self._open: set[sockets.SocketStream] = set()
        self._sweeper: asyncio.TimerHandle | None = None

    async def take(self, target: Target, deadline: Deadline | None) -> Connection:
        """Return a connection to the target's origin, a kept one if there is one.

        Raises BlockedUrlError before anything is connected, UpstreamError when nobody answers.
        """
        kept = self._idle.get(target.origin)
        while kept:
            connection = kept.pop()
            is_fresh = connection.keep_until > asyncio.get_running_loop().time()
            if is_fresh and not connection.stream.is_stale():
                connection.stream.has_sent = False
                return connection
            self._drop(connection)
        seconds = CONNECT_SECONDS if deadline is None else min(CONNECT_SECONDS, deadline.remaining)
        stream = await self._connect(target, Deadline.after(seconds))
        self._open.add(stream)
        origin = httpcore2.Origin(target.scheme.encode(), target.host.encode(), target.port)
        return Connection(target.origin, stream, _Http(origin, stream))

    def give_back(self, connection: Connection) -> None:
        """Keep the connection when its exchange is complete, else end it."""
        if not connection.http.is_idle():
            self._drop(connection, at_once=True)
            return
        loop = asyncio.get_running_loop()
        connection.keep_until = loop.time() + KEEP_SECONDS
        kept = self._idle.setdefault(connection.origin, [])
        kept.append(connection)
        if len(kept) > KEEP_PER_ORIGIN:
            self._drop(kept.pop(0))
        if self._sweeper is None:
            self._sweeper = loop.call_later(KEEP_SECONDS, self._sweep)

    async def check(self, target: Target) -> None:
        """Refuse a host that resolves to a refused address; a name that fails is no refusal."""
        self._policy.check_target(target)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._checked_addresses(target)
        except OSError:
            return

    def close(self) -> None:
        """Drop every connection, the ones in use as well."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        self._idle.clear()
        for stream in self._open:
            stream.abort()
        self._open.clear()

    def _drop(self, connection: Connection, *, at_once: bool = False) -> None:
        self._open.discard(connection.stream)
        if at_once:
            connection.stream.abort()
        else:
            connection.stream.close()

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweeper = None
        for origin, kept in list(self._idle.items()):
            while kept and kept[0].keep_until <= loop.time():
                self._drop(kept.pop(0))
            if not kept:
                del self._idle[origin]
        if self._idle:
            self._sweeper = loop.call_later(KEEP_SECONDS / 2, self._sweep)

    async def _connect(self, target: Target, deadline: Deadline) -> sockets.SocketStream:
        is_listed = self._policy.lists_host(target.host, target.port)
        try:
            async with asyncio.timeout(deadline.remaining):
                addresses = await self._checked_addresses(target)
        except OSError as exc:  # TimeoutError as well
            raise _unreachable(exc, is_listed=is_listed) from exc
        if not addresses:
            raise _unreachable(socket.gaierror(), is_listed=is_listed)
        is_listed = all(self._policy.lists(target.host, a, target.port) for a in addresses)
        failure: OSError | None = None
        for number, address in enumerate(addresses):
            try:
                async with asyncio.timeout(deadline.remaining / (len(addresses) - number)):
                    return await self._open_to(target, address)
            except OSError as exc:
                failure = failure or exc
        raise _unreachable(failure, is_listed=is_listed) from failure

    async def _open_to(self, target: Target, address: Address) -> sockets.SocketStream:
        tls = None if target.is_plain else self._tls or tls_context()
        return await sockets.connect(address, target.port, host=target.host, tls=tls)

    async def _checked_addresses(self, target: Target) -> list[Address]:
        """Return what the host resolves to. Raises BlockedUrlError when one answer is refused."""
        if target.literal is not None:
            answers = [target.host]
        else:
            answers = await self._resolve(target.host, target.port)
        addresses = [parse(answer) for answer in answers]
        checked = [
            address
            for address in addresses
            if address is not None
            and self._policy.may_connect(
                target.host, address, target.port, is_plain=target.is_plain
            )
        ]
        if len(checked) < len(addresses):
            raise BlockedUrlError
        return checked[:ADDRESSES_MAX]


def _unreachable(failure: OSError | None, *, is_listed: bool) -> UpstreamError:
    """Return the one error of every host that cannot be connected to.

    Only for hosts that the operator listed it says why; for others that would tell what listens
    where.
    """
    if not is_listed:
        return UpstreamError(was_sent=False)
    if isinstance(failure, ssl.SSLError):
        text = "The server's TLS certificate or handshake was not accepted."
    elif isinstance(failure, socket.gaierror):
        text = "The server's host name does not resolve."
    elif isinstance(failure, TimeoutError):
        text = "The server did not accept a connection in time."
    else:
        text = "The server refused the connection."
    return UpstreamError(text, was_sent=False)
