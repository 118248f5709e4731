"""Servers that are a child process, for operator presets only: one JSON-RPC message a line."""

from __future__ import annotations

import asyncio
import logging

from django.conf import settings

from connectors.server_spec import Era, Transport
from connectors.upstream import errors
from connectors.upstream.child import Child
from connectors.upstream.connect import Attempt, probe, shake_hands
from connectors.upstream.contract import Opened, Session, SessionListener
from connectors.upstream.duplex import DuplexSession
from connectors.upstream.eras import LegacyRules
from mcphub.core.errors import UpstreamError
from mcphub.core.types import JSONObject

logger = logging.getLogger(__name__)

STDERR_CHUNK = 64 << 10


async def open_stdio(attempt: Attempt) -> Session:
    """Start the server and agree on an era. Raises HubError; the caller checked STDIO_ENABLED."""
    attempt.listener.on_step("transport", {"transport": Transport.STDIO.value})
    session = await _start(attempt)
    try:
        verdict: Opened | bool = True
        if attempt.spec.era_hint is not Era.LEGACY:
            verdict = await _probe(session, attempt)
        if isinstance(verdict, Opened):
            session.opened = verdict
            return session
        if session.is_over:  # some servers exit on a request before `initialize`
            await session.close()
            session = await _start(attempt)
        session.opened = await shake_hands(
            session, attempt, Transport.STDIO, is_era_certain=verdict
        )
    except BaseException:
        await session.close()
        raise
    return session


async def _probe(session: StdioSession, attempt: Attempt) -> Opened | bool:
    try:
        return await probe(session, attempt, Transport.STDIO)
    except UpstreamError:
        if session.is_over:
            return True
        raise


async def _start(attempt: Attempt) -> StdioSession:
    environment = {name: secret.value for name, secret in attempt.spec.environment.items()}
    child = await Child.start(attempt.spec.command, environment, settings.MAX_BODY_BYTES)
    return StdioSession(child, attempt.listener)


class StdioSession(DuplexSession):
    """A session with one child process; it lives as long as the process."""

    def __init__(self, child: Child, listener: SessionListener) -> None:
        super().__init__(listener)
        self.rules = LegacyRules()
        self._child = child
        self._write_lock = asyncio.Lock()
        self.spawn(self._read_stdout())
        self.spawn(self._drain_stderr())

    @property
    def is_over(self) -> bool:
        return self._ending is not None

    async def send(self, message: JSONObject, body: bytes) -> None:
        stdin = self._child.process.stdin
        if stdin is None or self._ending is not None:
            raise errors.session_lost()
        async with self._write_lock:
            try:
                stdin.write(body + b"\n")
                await stdin.drain()
            except (ConnectionError, RuntimeError) as exc:
                raise errors.process_ended() from exc

    async def _read_stdout(self) -> None:
        stdout = self._child.process.stdout
        while stdout is not None:
            try:
                line = await stdout.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                break
            except asyncio.LimitOverrunError as exc:
                await self._skip_line(stdout, exc.consumed)
                continue
            if line.strip():
                self.take(line.strip())
                await self.turns.pass_on()
        self.lose(errors.process_ended(), errors.session_lost("The server's process ended."))

    async def _skip_line(self, stdout: asyncio.StreamReader, held: int) -> None:
        """Pass over a line that is too long, in pieces; only its call fails."""
        self.fail_oversized(settings.MAX_BODY_BYTES)
        while True:
            await stdout.readexactly(held)
            try:
                await stdout.readuntil(b"\n")
            except asyncio.LimitOverrunError as exc:
                held = exc.consumed
            except asyncio.IncompleteReadError:
                return
            else:
                return

    async def _drain_stderr(self) -> None:
        """Keep the pipe empty; what it says is upstream text and not logged."""
        stderr = self._child.process.stderr
        while stderr is not None and (piece := await stderr.read(STDERR_CHUNK)):
            logger.debug("stdio server wrote to stderr", extra={"bytes": len(piece)})

    async def close(self) -> None:
        self.end(errors.session_closed(), is_announced=False)
        self.lose(errors.process_ended(), errors.session_closed())
        await self._peer.stop()
        try:
            await self._child.stop()
        finally:
            await self._stop_tasks()
