"""`subscriptions/listen` of the 2026-07-28 revision: what servers announce without a session."""

from __future__ import annotations

import asyncio
import math
from asyncio import FIRST_COMPLETED
from collections.abc import Collection
from typing import TYPE_CHECKING

from connectors.upstream.contract import UpstreamRequest
from connectors.upstream.errors import HttpStatusError
from connectors.upstream.reconnect import Pause
from mcphub.core.clock import Deadline
from mcphub.core.errors import HubError, UpstreamError
from mcphub.core.types import JSONObject

if TYPE_CHECKING:
    from connectors.upstream.streamable_http import HttpSession

LISTS = ("tools", "prompts", "resources")
UPDATED = "notifications/resources/updated"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
USEFUL_SECONDS = 30.0
REPLACE_SECONDS = 5.0
"""For a new stream to open before the earlier one is ended in any case."""


def wanted_of(capabilities: JSONObject) -> JSONObject:
    """Return the filter for the list changes that the server says it announces."""
    wanted: JSONObject = {}
    for name in LISTS:
        capability = capabilities.get(name)
        if isinstance(capability, dict) and capability.get("listChanged") is True:
            wanted[f"{name}ListChanged"] = True
    return wanted


class Listening:
    """Keeps one listen stream open while the server allows it; a server without it is fine."""

    def __init__(self, session: HttpSession) -> None:
        self._session = session
        self._resources: frozenset[str] = frozenset()
        self._tasks: frozenset[str] = frozenset()
        self._is_changed = asyncio.Event()

    def wish(self, resources: Collection[str], tasks: Collection[str]) -> None:
        """Say which resources and tasks to hear of as well; the stream is replaced by a new one."""
        wished = frozenset(resources), frozenset(tasks)
        if wished != (self._resources, self._tasks):
            self._resources, self._tasks = wished
            self._is_changed.set()

    @property
    def wanted(self) -> JSONObject:
        wanted = wanted_of(self._session.opened.capabilities)
        if self._resources:
            wanted["resourceSubscriptions"] = [*sorted(self._resources)]
        if self._tasks:
            wanted["taskIds"] = [*sorted(self._tasks)]
        return wanted

    async def run(self) -> None:
        """Listen until the session ends."""
        pause, has_listened = Pause(), False
        current: asyncio.Task[bool] | None = None
        try:
            while True:
                if not self.wanted:
                    await self._until_wished(current)
                    current = None
                    continue
                attempt = self._attempt(is_again=has_listened and current is None)
                current = await self._replaced(current, attempt)
                if not current.done():
                    continue  # somebody wishes for more
                has_listened = has_listened or attempt.is_acknowledged
                if not current.result():
                    self._session.listener.on_step("listen_refused", {})
                    await self._until_wished(None)
                else:
                    self._session.listener.on_step("listen_lost", {})
                    if attempt.seconds > USEFUL_SECONDS:
                        pause.reset()
                    await asyncio.sleep(pause.next_seconds(None))
                current = None
        finally:
            await _cancelled(current)

    def _attempt(self, *, is_again: bool) -> _Attempt:
        self._is_changed.clear()
        return _Attempt(self._session, self.wanted, is_again=is_again)

    async def _until_wished(self, current: asyncio.Task[bool] | None) -> None:
        await _cancelled(current)
        await self._is_changed.wait()
        self._is_changed.clear()

    async def _replaced(
        self, earlier: asyncio.Task[bool] | None, attempt: _Attempt
    ) -> asyncio.Task[bool]:
        """Listen anew; the earlier stream ends when the new one is open, so nothing is missed.

        Returns when the new stream has ended, or is to be replaced in its turn.
        """
        loop = asyncio.get_running_loop()
        current = loop.create_task(attempt.run())
        waits = [
            loop.create_task(attempt.acknowledged.wait()),
            loop.create_task(self._is_changed.wait()),
        ]
        try:
            if earlier is not None:
                await asyncio.wait(
                    {current, waits[0]}, timeout=REPLACE_SECONDS, return_when=FIRST_COMPLETED
                )
                await _cancelled(earlier)
            await asyncio.wait({current, waits[1]}, return_when=FIRST_COMPLETED)
        except BaseException:
            await _cancelled(current)
            await _cancelled(earlier)
            raise
        else:
            return current
        finally:
            for wait in waits:
                wait.cancel()


async def _cancelled(task: asyncio.Task[bool] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class _Attempt:
    """One listen stream; when it replaces a lost one, what it may have missed is announced."""

    def __init__(self, session: HttpSession, wanted: JSONObject, *, is_again: bool) -> None:
        self._session = session
        self._wanted = wanted
        self._is_again = is_again
        self._began = asyncio.get_running_loop().time()
        self.acknowledged = asyncio.Event()

    @property
    def is_acknowledged(self) -> bool:
        return self.acknowledged.is_set()

    @property
    def seconds(self) -> float:
        return asyncio.get_running_loop().time() - self._began

    async def run(self) -> bool:
        """Listen until the stream ends; return whether it makes sense to listen again."""
        request = UpstreamRequest(
            method="subscriptions/listen",
            params={"notifications": self._wanted},
            deadline=Deadline(math.inf),
        )
        call = self._session.begin(request)
        call.is_standing = True
        call.on_notification = self._on_notification
        try:
            await self._session.exchange(call)
        except HttpStatusError as exc:
            return exc.is_transient and self.is_acknowledged
        except UpstreamError as exc:
            return self.is_acknowledged or not exc.was_answered
        except HubError:
            return False
        finally:
            self._session.calls.remove(call)
        return self.is_acknowledged

    def _on_notification(self, method: str, params: JSONObject) -> None:
        if method != ACKNOWLEDGED:
            return
        self.acknowledged.set()
        self._session.listener.on_step("listen_open", {})
        if not self._is_again:
            return
        honored = params.get("notifications")
        told = honored if isinstance(honored, dict) else self._wanted
        for name in LISTS:
            if told.get(f"{name}ListChanged"):
                self._announce(f"notifications/{name}/list_changed", {})
        uris = told.get("resourceSubscriptions")
        for uri in uris if isinstance(uris, list) else ():
            self._announce(UPDATED, {"uri": uri})

    def _announce(self, method: str, params: JSONObject) -> None:
        self._session.listener.on_notification(method, params, None)
