"""What servers log: from which level on, and its announcement.

Of a flood only so much a second is announced; traces account for the rest.
"""

from __future__ import annotations

import contextlib
import time
from weakref import WeakKeyDictionary

from connectors import events, selectors
from connectors.server_spec import Era
from connectors.upstream.host import SessionKey
from connectors.upstream.session import Session, UpstreamRequest
from mcphub.core.clock import Deadline
from mcphub.core.errors import HubError
from mcphub.core.types import JSONObject

METHOD = "notifications/message"
PER_SECOND = 50
LEVEL_SECONDS = 5.0


async def restore_level(session: Session, level: str) -> None:
    """Tell a session of the handshake era what its member chose; newer ones hear it in each call.

    A server that does not take it is as good without.
    """
    is_told = session.opened.era is Era.LEGACY and "logging" in session.opened.capabilities
    if level and is_told:
        request = UpstreamRequest(
            method="logging/setLevel",
            params={"level": level},
            deadline=Deadline.after(LEVEL_SECONDS),
        )
        with contextlib.suppress(HubError):
            await session.request(request)


class ServerLogs:
    """Runs on the session host's loop."""

    def __init__(self) -> None:
        self._counts: WeakKeyDictionary[SessionKey, tuple[int, int]] = WeakKeyDictionary()

    def note(self, key: SessionKey, method: str, params: JSONObject) -> None:
        """Take a notification; only log messages matter."""
        if method != METHOD:
            return
        now = int(time.monotonic())
        second, count = self._counts.get(key, (now, 0))
        count = count + 1 if second == now else 1
        self._counts[key] = (now, count)
        if count <= PER_SECOND:
            shown = selectors.kept_secrets(key.spec).hidden(params)
            if isinstance(shown, dict):
                events.announce_call_log(key.spec, shown)
