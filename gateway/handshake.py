"""Streamable HTTP of the handshake era (2025-03-26 to 2025-11-25): POST, GET, DELETE of sessions.

Any process serves any of them; what concerns another process goes through its mailbox.
"""

from __future__ import annotations

import asyncio

from mcp_types.jsonrpc import INVALID_REQUEST

from connectors.server_spec import Era
from gateway import answering, auth, mailbox, notifications, sessions, wire
from gateway.auth import Arrival
from gateway.exchange import Channel, Exchange
from gateway.http import KEEP_ALIVE_SECONDS, STREAM, until_gone
from gateway.sessions import Session
from gateway.wire import Incoming, Notification, Reply, Request, RpcFault, Unusable
from mcphub.api.errors import MethodNotAllowedError, NotAcceptableError
from mcphub.core.errors import InvalidInputError
from mcphub.core.types import JSONValue
from tenants.principal import Principal

SESSION_HEADER = "mcp-session-id"
BATCHING = frozenset({"2025-03-26"})
"""Revisions with JSON-RPC batches."""
MOST_IN_BATCH = 50


class SessionNeededError(InvalidInputError):
    code = "session_needed"
    status = 400
    title = "Open a session with `initialize`, and send its id with every further message"


async def post(arrival: Arrival, value: JSONValue) -> None:
    """Answer one POST. Raises RpcFault, HubError for what is refused as a whole."""
    session = await _session_of(arrival, value)
    messages = _messages(value, session)
    requests = [message for message in messages if isinstance(message, Request)]
    for message in messages:
        await take(message, session, arrival.principal)
    if not requests:
        await arrival.answer.empty(202)
        return
    exchanges = [
        exchange_of(message, session, arrival.principal, arrival.answer) for message in requests
    ]
    await mailbox.current().start()
    await answering.serve(exchanges, arrival, is_batch=isinstance(value, list))


def exchange_of(
    message: Request, session: Session, principal: Principal, channel: Channel
) -> Exchange:
    return Exchange(
        principal=principal,
        endpoint=session.endpoint,
        era=Era.LEGACY,
        version=session.version,
        request=message,
        channel=channel,
        capabilities=session.capabilities,
        client_info=session.client_info,
        session=session,
    )


async def take(message: Incoming, session: Session, principal: Principal) -> None:
    """Bring a notification or an answer to where it is waited for."""
    if isinstance(message, Reply):
        await mailbox.current().answer(session.id, message)
    elif isinstance(message, Notification):
        await notifications.take(session, principal, message)


async def get(arrival: Arrival) -> None:
    """Serve the stream of a session until the client, the session or the credential ends it."""
    if arrival.request.headers.get("mcp-protocol-version") in wire.MODERN_PROTOCOL_VERSIONS:
        raise MethodNotAllowedError("There is no GET stream in 2026-07-28.")
    if not arrival.request.accepts(STREAM):
        raise NotAcceptableError(f"The stream of a session is {STREAM}.")
    session = await _known_session(arrival)
    await hold(session, arrival)


async def hold(session: Session, arrival: Arrival) -> None:
    """Keep a stream open and let the session's notifications flow, until a newer one does.

    Raises HubError when it could not be opened.
    """
    box = mailbox.current()
    await box.start()
    claim = await sessions.claim_stream(session)
    answer = arrival.answer
    async with auth.watching(arrival.shown, arrival.principal) as expired:
        with box.until_ended(session.id) as ended:
            feed = asyncio.ensure_future(
                notifications.feed(session, arrival.principal, answer, claim)
            )
            ends = {
                feed,
                asyncio.ensure_future(until_gone(arrival.receive)),
                asyncio.ensure_future(expired.wait()),
                asyncio.ensure_future(ended.wait()),
            }
            try:
                while True:
                    done, _ = await asyncio.wait(
                        ends, timeout=KEEP_ALIVE_SECONDS, return_when=asyncio.FIRST_COMPLETED
                    )
                    if done:
                        break
                    await answer.keep_alive()
                    if not await sessions.keeps_stream(session, claim):
                        break
            finally:
                for each in ends:
                    each.cancel()
                await asyncio.gather(*ends, return_exceptions=True)
    if not answer.is_streaming and not feed.cancelled() and (error := feed.exception()):
        raise error
    await answer.close()


async def delete(arrival: Arrival) -> None:
    """End a session, with everything that is open of it."""
    session = await _known_session(arrival)
    await sessions.end(session)
    await mailbox.current().end(session.id)
    await notifications.end(session, arrival.principal)
    await arrival.answer.empty(204)


async def _session_of(arrival: Arrival, value: JSONValue) -> Session:
    """Return the session of a POST, or a new one for `initialize`. Raises HubError."""
    if SESSION_HEADER in arrival.request.headers:
        return await _known_session(arrival)
    if isinstance(value, dict) and value.get("method") == "initialize":
        return sessions.new(arrival.principal, arrival.endpoint)
    raise SessionNeededError


async def _known_session(arrival: Arrival) -> Session:
    request = arrival.request
    session_id = request.headers.get(SESSION_HEADER)
    if session_id is None or SESSION_HEADER in request.repeated:
        raise SessionNeededError
    return await sessions.find(arrival.principal, arrival.endpoint, session_id)


def _messages(value: JSONValue, session: Session) -> list[Incoming]:
    """Return the messages of a body. Raises RpcFault for what is refused as a whole."""
    if not isinstance(value, list):
        messages = [wire.read_message(value)]
    else:
        if session.version not in BATCHING:
            raise RpcFault(INVALID_REQUEST, "This protocol version has no batches.")
        if not 0 < len(value) <= MOST_IN_BATCH:
            raise RpcFault(INVALID_REQUEST, f"A batch has 1 to {MOST_IN_BATCH} messages.")
        messages = [wire.read_message(one) for one in value]
    for message in messages:
        if isinstance(message, Unusable):
            raise RpcFault(INVALID_REQUEST, message.reason)
        if isinstance(value, list) and getattr(message, "method", "") == "initialize":
            raise RpcFault(INVALID_REQUEST, "`initialize` is never part of a batch.")
    return messages
