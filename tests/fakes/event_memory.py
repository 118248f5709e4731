"""EventMemory: what a server keeps of its streams, so that readers can resume them."""

from __future__ import annotations

from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp_types import JSONRPCMessage


class EventMemory(EventStore):
    """Ids are positions in one list of all streams."""

    def __init__(self) -> None:
        self._events: list[tuple[str, JSONRPCMessage | None]] = []
        self.replays = 0

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(
        self, last_event_id: str, send_callback: EventCallback
    ) -> str | None:
        self.replays += 1
        place = int(last_event_id)
        stream, _ = self._events[place - 1]
        for number, (of_stream, message) in enumerate(self._events[place:], place + 1):
            if of_stream == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream
