"""Authorization requests that wait for a person's answer: kept in the browser's own session.

What is granted is what was shown: the form carries a name of the request and nothing of it. Another
browser, another login or a second answer finds nothing.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

from django.contrib.sessions.backends.base import SessionBase

from mcphub.core import ids

KEY = "client_login_requests"
MOST = 5
SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRequest:
    """A checked authorization request."""

    client_id: str
    redirect_uri: str
    state: str | None
    code_challenge: str
    scopes: list[str]
    resource: str
    user_id: str
    asked_at: float


def keep(session: SessionBase, request: PendingRequest) -> str:
    """Return the name under which `take` gives it back; the oldest ones make room."""
    waiting = _waiting(session)
    name = ids.new_secret()
    newest = sorted(waiting.items(), key=lambda item: item[1]["asked_at"])[-(MOST - 1) :]
    session[KEY] = {**dict(newest), name: asdict(request)}
    return name


def take(session: SessionBase, name: str, *, user_id: str) -> PendingRequest | None:
    """Return the request once, to whom it was shown; None when it is gone or too old."""
    waiting = _waiting(session)
    found = waiting.pop(name, None)
    session[KEY] = waiting
    if found is None or found["user_id"] != user_id:
        return None
    return PendingRequest(**found)


def _waiting(session: SessionBase) -> dict[str, dict[str, Any]]:
    oldest = time.time() - SECONDS
    return {
        name: request
        for name, request in session.get(KEY, {}).items()
        if request["asked_at"] >= oldest
    }
