"""Notifications in both directions, outside the answers to requests."""

from __future__ import annotations

import asyncio

from gateway import mailbox
from gateway.exchange import Channel
from gateway.sessions import Session
from gateway.wire import Notification
from tenants.principal import Principal


async def take(session: Session, message: Notification) -> None:
    """Take a notification of a client of the handshake era; unknown ones are ignored."""
    if message.method == "notifications/cancelled":
        request_id = message.params.get("requestId")
        if isinstance(request_id, str | int) and not isinstance(request_id, bool):
            await mailbox.current().cancel(session.id, request_id)


async def feed(session: Session, principal: Principal, channel: Channel) -> None:
    """Send what the servers of the session's endpoint announce, until cancelled."""
    del session, principal, channel
    await asyncio.Event().wait()
