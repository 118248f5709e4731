"""The tap of one session: tells the listener about every message and every failure without one."""

from __future__ import annotations

import time

from connectors.upstream import jsonrpc
from connectors.upstream.calls import Call
from connectors.upstream.contract import SeenMessage, SessionListener
from mcphub.core.clock import now
from mcphub.core.errors import AuthorizationNeededError, HubError, ProtocolError, RpcError
from mcphub.core.types import JSONObject

RAW_LIMIT = 64 << 10
HUB_FAULT = -31001
HUB_AUTHORIZATION = -31003
"""Outside of -32768 … -32000, as the specification asks of an application's own codes."""


class Tap:
    """Builds SeenMessages; knows which call a message belongs to."""

    __slots__ = ("_listener",)

    def __init__(self, listener: SessionListener) -> None:
        self._listener = listener

    def sent(self, message: JSONObject, size: int, call: Call | None = None) -> None:
        self._listener.on_message(
            SeenMessage(
                direction="sent",
                message=message,
                size=size,
                at=now(),
                call_id=call.request.call_id if call else None,
                attempt=call.request.attempt if call else 0,
            )
        )

    def received(
        self, message: JSONObject, size: int, call: Call | None = None, *, is_answer: bool = False
    ) -> None:
        if is_answer and call is not None:
            call.is_answer_seen = True
        self._listener.on_message(
            SeenMessage(
                direction="received",
                message=message,
                size=size,
                at=now(),
                call_id=call.request.call_id if call else None,
                attempt=call.request.attempt if call else 0,
                duration_ms=_duration(call) if is_answer and call else None,
                http=call.http if is_answer and call else None,
            )
        )

    def unreadable(self, raw: bytes | bytearray, call: Call | None = None) -> None:
        self._listener.on_message(
            SeenMessage(
                direction="received",
                message=None,
                size=len(raw),
                at=now(),
                call_id=call.request.call_id if call else None,
                attempt=call.request.attempt if call else 0,
                raw=bytes(raw[:RAW_LIMIT]),
            )
        )

    def failed(self, call: Call, error: HubError) -> None:
        """Stand in for the answer that was never on the wire."""
        if call.is_answer_seen or isinstance(error, ProtocolError):
            return
        is_auth = isinstance(error, AuthorizationNeededError)
        rpc = RpcError(
            code=HUB_AUTHORIZATION if is_auth else HUB_FAULT,
            message=error.detail,
            data={"code": error.problem_code},
        )
        self._listener.on_message(
            SeenMessage(
                direction="received",
                message=jsonrpc.failure(call.id, rpc),
                size=0,
                at=now(),
                call_id=call.request.call_id,
                attempt=call.request.attempt,
                synthetic=True,
                duration_ms=_duration(call),
                http=call.http,
            )
        )


def _duration(call: Call) -> float:
    return (time.monotonic() - call.started) * 1000.0
