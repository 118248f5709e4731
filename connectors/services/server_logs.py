"""Announces what servers log; of a flood only so much a second, traces account for the rest."""

from __future__ import annotations

import time
from weakref import WeakKeyDictionary

from connectors import events, selectors
from connectors.upstream.host import SessionKey
from mcphub.core.types import JSONObject

METHOD = "notifications/message"
PER_SECOND = 50


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
