"""Wishes: keeps servers in step with what downstream clients subscribe to; worker side.

handshake era    resources/subscribe, resources/unsubscribe, logging/setLevel
2026-07-28       the filter of the listen stream; log levels travel with each request

A level that the member has chosen by REST, and those of calls that run, count as wishes too: the
server logs as much as whoever wants to hear most.

A session that is opened anew, or by another worker, begins with nothing, so everything is asked for
again. Runs on the session host's loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from connectors.server_spec import Era
from connectors.services import subscriptions
from connectors.services.subscriptions import Kind, Wish
from connectors.upstream.host import SessionHost, SessionKey
from connectors.upstream.session import Session, UpstreamRequest
from mcphub.core.clock import Deadline
from mcphub.core.errors import HubError, ProtocolError, UnavailableError
from mcphub.core.types import JSONObject

REQUEST_SECONDS = 10.0
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The most verbose first."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Step:
    """What one session's server has been told."""

    resources: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    """Resources that the server will not announce; not asked for again while they are wished."""
    level: str = ""
    """The one that it was told last."""
    chosen: str = ""
    """By the member, by REST."""
    of_calls: Counter[str] = field(default_factory=Counter)
    wished: set[str] = field(default_factory=set)
    """Of downstream clients, when they were last looked up."""
    setting: asyncio.Lock = field(default_factory=asyncio.Lock)
    has_wishes: bool = False
    due: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class Wishes:
    """The wishes for the open sessions of one worker."""

    def __init__(self, host: SessionHost, *, period: float) -> None:
        self._host = host
        self._period = period
        self._steps: WeakKeyDictionary[SessionKey, _Step] = WeakKeyDictionary()

    def look(self, connection_id: uuid.UUID) -> None:
        """Bring the server of a connection in step; again if that is under way."""
        key = self._host.key_of(connection_id)
        if key is None:
            return
        step = self._steps.setdefault(key, _Step())
        step.due.set()
        if step.task is None or step.task.done():
            step.task = self._host.spawn(self._keep(key, step), name=f"wishes {connection_id}")

    def note(self, key: SessionKey | None, request: UpstreamRequest) -> None:
        """Take into account what a call has just told the server."""
        if key is None:
            return
        uri, level = request.params.get("uri"), request.params.get("level")
        if request.method == "resources/subscribe" and isinstance(uri, str):
            self._steps.setdefault(key, _Step()).resources.add(uri)
        elif request.method == "logging/setLevel" and isinstance(level, str):
            step = self._steps.setdefault(key, _Step())
            step.level = step.chosen = level
            self.look(key.connection_id)

    def choose(self, key: SessionKey | None, level: str) -> None:
        """Take over what the member has chosen before; the server of a new session knows it."""
        if key is not None and level:
            step = self._steps.setdefault(key, _Step())
            step.level = step.chosen = level

    @asynccontextmanager
    async def during(self, key: SessionKey | None, request: UpstreamRequest) -> AsyncIterator[None]:
        """Have the server of the handshake era log what the client of a call wants to hear."""
        session = self._host.session(key.connection_id) if key is not None else None
        is_wished = request.log_level in LEVELS and session is not None
        if key is None or session is None or not is_wished or not _is_set_by_request(session):
            yield
            return
        step = self._steps.setdefault(key, _Step())
        step.of_calls[request.log_level] += 1
        try:
            with contextlib.suppress(UnavailableError):
                await self._set_level(key, session, step)
            yield
        finally:
            step.of_calls[request.log_level] -= 1
            self.look(key.connection_id)

    async def _keep(self, key: SessionKey, step: _Step) -> None:
        """Work while something is wished of the session, and look again after each period."""
        while True:
            step.due.clear()
            session = self._host.session(key.connection_id)
            if session is None or self._host.key_of(key.connection_id) is not key:
                return
            try:
                wished = await subscriptions.wished(key.connection_id)
                await self._bring_in_step(key, session, step, wished)
            except UnavailableError:
                logger.warning("wishes looked up later connection=%s", key.connection_id)
                step.has_wishes = True
            if not step.has_wishes and not step.due.is_set():
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._period):
                    await step.due.wait()

    async def _bring_in_step(
        self, key: SessionKey, session: Session, step: _Step, wished: set[Wish]
    ) -> None:
        resources = {wish.name for wish in wished if wish.kind is Kind.RESOURCE}
        if session.opened.era is Era.MODERN:
            tasks = {wish.name for wish in wished if wish.kind is Kind.TASK}
            session.wish(resources, tasks)
            step.has_wishes = bool(resources or tasks)
            return
        step.refused &= resources
        for uri in sorted(resources - step.resources - step.refused):
            is_taken = await self._ask(key, "resources/subscribe", {"uri": uri})
            (step.resources if is_taken else step.refused).add(uri)
        for uri in sorted(step.resources - resources):
            await self._ask(key, "resources/unsubscribe", {"uri": uri})
            step.resources.discard(uri)
        step.wished = {wish.name for wish in wished if wish.kind is Kind.LOG_LEVEL}
        await self._set_level(key, session, step)
        step.has_wishes = bool(resources or step.wished)

    async def _set_level(self, key: SessionKey, session: Session, step: _Step) -> None:
        """Have the server log as much as who wants to hear most; without anybody it stays as is."""
        async with step.setting:
            levels = step.wished | {step.chosen} | set(+step.of_calls)
            level = next((each for each in LEVELS if each in levels), "")
            if not level or level == step.level or not _is_set_by_request(session):
                return
            if await self._ask(key, "logging/setLevel", {"level": level}):
                step.level = level

    async def _ask(self, key: SessionKey, method: str, params: JSONObject) -> bool:
        """Return whether the server took it; one that cannot be reached is asked again later."""
        request = UpstreamRequest(
            method=method, params=params, deadline=Deadline.after(REQUEST_SECONDS)
        )
        try:
            await self._host.request(key.connection_id, request)
        except ProtocolError:
            return False
        except HubError as exc:
            raise UnavailableError from exc
        return True


def _is_set_by_request(session: Session) -> bool:
    return session.opened.era is Era.LEGACY and "logging" in session.opened.capabilities
