"""Hands Django whole bodies of a bounded size, with their length.

By itself Django writes a body of any size to a file before a view sees the request, and DRF takes
a body without Content-Length (`Transfer-Encoding: chunked`) for an empty one.
"""

from __future__ import annotations

from django.conf import settings

from mcphub.lean import Application, Message, Receive, Scope, Send, take_body

LENGTH_HEADERS = frozenset({b"content-length", b"transfer-encoding"})


class WholeBodies:
    """ASGI: 413 for a body over DATA_UPLOAD_MAX_MEMORY_SIZE, everything else goes to `behind`."""

    def __init__(self, behind: Application) -> None:
        self._behind = behind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        limit: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        body = await take_body(scope, receive, send, limit)
        if body is not None:
            await self._behind(with_length(scope, len(body)), after(body, receive), send)


def with_length(scope: Scope, length: int) -> Scope:
    headers = [item for item in scope["headers"] if item[0] not in LENGTH_HEADERS]
    return {**scope, "headers": [*headers, (b"content-length", str(length).encode())]}


def after(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the body first; then it waits for the client to leave."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return waiting.pop() if waiting else await receive()

    return replayed
