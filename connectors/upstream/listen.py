"""`subscriptions/listen` of the 2026-07-28 revision: how list changes arrive without a session."""

from __future__ import annotations

import asyncio
import math
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
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
USEFUL_SECONDS = 30.0


def wanted_of(capabilities: JSONObject) -> JSONObject:
    """Return the filter for the list changes that the server says it announces."""
    wanted: JSONObject = {}
    for name in LISTS:
        capability = capabilities.get(name)
        if isinstance(capability, dict) and capability.get("listChanged") is True:
            wanted[f"{name}ListChanged"] = True
    return wanted


async def listen(session: HttpSession) -> None:
    """Keep one listen stream open while the server allows it; a server without it is fine."""
    wanted = wanted_of(session.opened.capabilities)
    if not wanted:
        return
    pause, has_listened = Pause(), False
    clock = asyncio.get_running_loop()
    while True:
        began = clock.time()
        attempt = _Attempt(session, wanted, is_again=has_listened)
        if not await attempt.run():
            session.listener.on_step("listen_refused", {})
            return
        has_listened = has_listened or attempt.is_acknowledged
        if clock.time() - began > USEFUL_SECONDS:
            pause.reset()
        session.listener.on_step("listen_lost", {})
        await asyncio.sleep(pause.next_seconds(None))


class _Attempt:
    """One listen stream; when it replaces a lost one, what it may have missed is announced."""

    def __init__(self, session: HttpSession, wanted: JSONObject, *, is_again: bool) -> None:
        self._session = session
        self._wanted = wanted
        self._is_again = is_again
        self.is_acknowledged = False

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
        self.is_acknowledged = True
        self._session.listener.on_step("listen_open", {})
        if not self._is_again:
            return
        honored = params.get("notifications")
        for name in LISTS:
            if not isinstance(honored, dict) or honored.get(f"{name}ListChanged"):
                self._session.listener.on_notification(
                    f"notifications/{name}/list_changed", {}, None
                )
