"""Parking: the questions of open sessions that wait for a person; on the session host's loop.

A lost ring only delays: what is waited for is looked up every two seconds, one query for all.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from dataclasses import dataclass
from typing import Protocol

from django.db import DatabaseError

from connectors.models import InputRequest, InputState
from connectors.services import input_answers, input_rounds, input_store, quotas
from connectors.services.input_store import Asker
from connectors.upstream.host import SessionHost, SessionKey
from connectors.upstream.session import UpstreamRequest
from mcphub.core import clock
from mcphub.core.errors import UnavailableError
from mcphub.core.offload import DatabaseThreads
from mcphub.core.types import JSONObject

RECHECK_SECONDS = 2.0
COMPLETE = "notifications/elicitation/complete"

logger = logging.getLogger(__name__)


class ParkedCalls(Protocol):
    """What the executor is told of calls whose server waits for an answer."""

    def pause(self, call_id: uuid.UUID) -> None: ...

    def go_on(self, call_id: uuid.UUID) -> None: ...

    def move(self, call_id: uuid.UUID, reply_to: str) -> None: ...

    def expire(self, call_id: uuid.UUID) -> None: ...


@dataclass(slots=True, eq=False)
class _Waiting:
    row: InputRequest
    answered: asyncio.Future[InputRequest]


class Parking:
    """Answers the requests of servers when somebody has answered them by REST."""

    def __init__(self, worker: str, host: SessionHost, threads: DatabaseThreads) -> None:
        self.worker = worker
        self.calls: ParkedCalls | None = None
        self._host = host
        self._threads = threads
        self._waiting: dict[uuid.UUID, _Waiting] = {}
        self._is_due = asyncio.Event()
        self._watcher: asyncio.Task[None] | None = None

    async def ask(
        self, key: SessionKey, method: str, params: JSONObject, asker: UpstreamRequest | None
    ) -> JSONObject:
        """Return the answer to a request of a server. Raises ProtocolError, HubError."""
        asked = input_rounds.read_request(method, params, key.spec.client_capabilities)
        who = self._asker(key, asker)
        if self.calls is not None and who.call_id is not None:
            self.calls.pause(who.call_id)
        try:
            row = await self._open(who, asked)
            self._keep_place(who)
            answered = await self._answered(row)
            if answered.state == InputState.EXPIRED and self.calls and who.call_id:
                self.calls.expire(who.call_id)
            else:
                reply_to = await self._threads.run(input_store.go_on, who)
                if self.calls is not None and who.call_id is not None and reply_to:
                    self.calls.move(who.call_id, reply_to)
        finally:
            if self.calls is not None and who.call_id is not None:
                self.calls.go_on(who.call_id)
        return input_store.answer_of(answered)

    def look(self) -> None:
        """Look for answers at once: the lane says that there is one."""
        self._is_due.set()

    def on_notification(self, key: SessionKey, method: str, params: JSONObject) -> None:
        """Take the end of an interaction on a page, which answers its question."""
        named = params.get("elicitationId")
        if method == COMPLETE and isinstance(named, str) and named:
            self._host.spawn(self._complete(key, named), name="elicitation complete")

    @staticmethod
    def _keep_place(who: Asker) -> None:
        if who.call_id is not None:
            place = quotas.Place(
                call_id=who.call_id,
                tenant_id=who.tenant_id,
                connection_id=who.connection_id,
                worker=who.worker,
            )
            quotas.prolong(place)

    async def _open(self, who: Asker, asked: input_rounds.Asked) -> InputRequest:
        try:
            return await self._threads.run(input_store.open_in_session, who, asked)
        except DatabaseError as exc:
            raise UnavailableError from exc

    async def _answered(self, row: InputRequest) -> InputRequest:
        waiting = _Waiting(row, asyncio.get_running_loop().create_future())
        self._waiting[row.pk] = waiting
        if self._watcher is None or self._watcher.done():
            self._watcher = self._host.spawn(self._watch(), name="open questions")
        try:
            return await waiting.answered
        finally:
            del self._waiting[row.pk]
            if not waiting.answered.done() or waiting.answered.cancelled():
                self._host.spawn(self._withdraw(row), name=f"withdraw {row.pk}")

    async def _withdraw(self, row: InputRequest) -> None:
        """Close a question that the server does not ask any more; its call goes on."""
        await self._threads.run(input_store.close, [row.pk], InputState.CANCELLED)
        await self._threads.run(input_store.go_on, _asker_of(row))

    async def _watch(self) -> None:
        while self._waiting:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._is_due.wait()
            self._is_due.clear()
            try:
                rows = await self._threads.run(input_store.settled, list(self._waiting))
            except DatabaseError:
                logger.warning("questions looked up later count=%d", len(self._waiting))
                continue
            for row in rows:
                waiting = self._waiting.get(row.pk)
                if waiting is not None and not waiting.answered.done():
                    waiting.answered.set_result(row)

    def _pause(self) -> float:
        soonest = min(each.row.expires_at for each in self._waiting.values())
        left = (soonest - clock.now()).total_seconds()
        return min(RECHECK_SECONDS, max(left, 0.0) + 0.01)

    async def _complete(self, key: SessionKey, named: str) -> None:
        await self._threads.run(input_answers.complete, key.connection_id, named)
        self.look()

    def _asker(self, key: SessionKey, asker: UpstreamRequest | None) -> Asker:
        return Asker(
            tenant_id=key.spec.tenant_id,
            member_id=key.spec.member_id,
            connection_id=key.connection_id,
            worker=self.worker,
            call_id=asker.call_id if asker else None,
            attempt=asker.attempt if asker else 0,
        )


def _asker_of(row: InputRequest) -> Asker:
    return Asker(
        tenant_id=row.tenant_id,
        member_id=row.member_id,
        connection_id=row.connection_id,
        worker=row.worker,
        call_id=row.call_id,
        attempt=row.attempt,
    )
