"""Answers 503 at once for the API while the database is known to be away; nothing is queued up."""

from __future__ import annotations

import io
from collections.abc import Awaitable, Callable
from typing import Any

from django.core.handlers.asgi import ASGIRequest

from mcphub.api.errors import problem_response
from mcphub.core.database_watch import watch
from mcphub.core.errors import UnavailableError

Application = Callable[[Any, Any, Any], Awaitable[None]]

PREFIX = "/api/v1/"


class OutageGuard:
    """ASGI: passes requests on unless they could only wait for the database."""

    def __init__(self, behind: Application, *, is_watching: bool) -> None:
        """`is_watching` False: a database in a file, which cannot be away."""
        self._behind = behind
        self._is_watching = is_watching

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._is_watching and watch.is_away() and scope["path"].startswith(PREFIX):
            error = UnavailableError("The database is away.", retry_after=1.0)
            response = problem_response(error, ASGIRequest(scope, io.BytesIO()))
            headers = [(k.lower().encode(), v.encode()) for k, v in response.headers.items()]
            start = {"type": "http.response.start", "status": 503, "headers": headers}
            await send(start)
            await send({"type": "http.response.body", "body": response.content})
            return
        await self._behind(scope, receive, send)
