"""The two requests that most tests of the outbound client send."""

from __future__ import annotations

from mcphub.core.clock import Deadline
from mcphub.core.egress import EgressRequest
from tests.core.raw_server import RawServer

PLENTY = 20.0


def post(server: RawServer, *, seconds: float = PLENTY, max_bytes: int = 1 << 20) -> EgressRequest:
    return EgressRequest(
        method="POST",
        url=server.url,
        headers={"Authorization": "Bearer s", "Content-Type": "application/json"},
        content=b'{"id":1}',
        deadline=Deadline.after(seconds),
        max_bytes=max_bytes,
    )


def get(server: RawServer) -> EgressRequest:
    return EgressRequest(method="GET", url=server.url, deadline=Deadline.after(PLENTY))
