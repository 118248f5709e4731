"""The public face of this package: open a session with a server and talk over it."""

from __future__ import annotations

import asyncio

from connectors.server_spec import ServerSpec, Transport
from connectors.upstream import errors
from connectors.upstream.connect import Attempt, open_http
from connectors.upstream.contract import (
    Opened,
    SeenMessage,
    Session,
    SessionListener,
    StreamPosition,
    UpstreamRequest,
)
from connectors.upstream.param_headers import load_rules
from connectors.upstream.stdio import open_stdio
from mcphub.core.clock import Deadline
from mcphub.core.egress import EgressClient

__all__ = [
    "Opened",
    "SeenMessage",
    "Session",
    "SessionListener",
    "StreamPosition",
    "UpstreamRequest",
    "open_session",
]


async def open_session(
    spec: ServerSpec, *, http: EgressClient, listener: SessionListener
) -> Session:
    """Open a session within `spec.connect_timeout`; it is closed by its owner.

    Raises UpstreamError, AuthorizationNeededError, ProtocolError, BlockedUrlError. The caller
    decides whether stdio is allowed.
    """
    await load_rules()
    attempt = Attempt(
        spec=spec,
        http=http,
        listener=listener,
        deadline=Deadline.after(spec.connect_timeout),
    )
    try:
        async with asyncio.timeout(spec.connect_timeout):
            if spec.transport is Transport.STDIO:
                return await open_stdio(attempt)
            return await open_http(attempt)
    except TimeoutError as exc:
        raise errors.timed_out("The server was not ready in time.", was_sent=False) from exc
