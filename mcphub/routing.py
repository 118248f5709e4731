"""Routes of WebSockets; wiring only.

Origin, Host and credential are checked by the consumers (tenants.sockets): the origins that a
tenant allows are rows, which a list in the settings cannot know.
"""

from __future__ import annotations

from typing import Any

from tenants.tickets import SOCKET_PATH
from tracing.consumers import EventsConsumer

sockets: dict[str, Any] = {SOCKET_PATH: EventsConsumer.as_asgi()}


async def websockets(scope: Any, receive: Any, send: Any) -> None:
    """Hand a WebSocket to its consumer; 403, the only refusal before the accept, elsewhere."""
    consumer = sockets.get(scope["path"])
    if consumer is not None:
        await consumer(scope, receive, send)
        return
    await receive()
    await send({"type": "websocket.close"})
