"""A WebSocket client without a network: ASGI to one application (that of Channels needs daphne)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from asgiref.testing import ApplicationCommunicator

SECONDS = 5.0
HOST = "127.0.0.1:8000"


class SocketClient:
    """Open, read, send and close; every wait is bounded."""

    def __init__(
        self,
        application: Any,
        *,
        path: str = "/ws/v1/events",
        protocols: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        parts = urlsplit(path)
        sent = {"host": HOST, **(headers or {})}
        scope = {
            "type": "websocket",
            "path": parts.path,
            "query_string": parts.query.encode(),
            "headers": [(name.lower().encode(), v.encode()) for name, v in sent.items()],
            "subprotocols": list(protocols),
        }
        self._channel: Any = ApplicationCommunicator(application, scope)  # type: ignore[no-untyped-call]  # of asgiref

    async def open(self) -> str:
        """Return the selected protocol, "" for none; "refused" when there was no accept (a 403)."""
        await self._channel.send_input({"type": "websocket.connect"})
        answer = await self._receive()
        if answer["type"] == "websocket.close":
            return "refused"
        assert answer["type"] == "websocket.accept", answer
        return str(answer.get("subprotocol") or "")

    async def read(self) -> str:
        """Return the next text frame."""
        message = await self._receive()
        assert message["type"] == "websocket.send", message
        return str(message["text"])

    async def send(self, text: str) -> None:
        await self._channel.send_input({"type": "websocket.receive", "text": text})

    async def close_code(self) -> int:
        """Return the code with which the application closes next, and hang up."""
        message = await self._receive()
        assert message["type"] == "websocket.close", message
        code = int(message["code"])
        await self.close(code)
        return code

    async def is_quiet(self) -> bool:
        """Whether the application has nothing more to say just now."""
        return bool(await self._channel.receive_nothing(timeout=0.05))

    async def close(self, code: int = 1000) -> None:
        """Hang up and wait for the application's end."""
        await self._channel.send_input({"type": "websocket.disconnect", "code": code})
        await self._channel.wait(SECONDS)

    async def _receive(self) -> dict[str, Any]:
        message: dict[str, Any] = await self._channel.receive_output(SECONDS)
        return message
