"""Requests that travel to an upstream server: as calls of the ledger, there and back."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Collection, Coroutine
from typing import Any

from django.conf import settings
from mcp_types import LOG_LEVEL_META_KEY
from mcp_types.methods import INPUT_REQUIRED_METHODS

from connectors import selectors
from connectors.api import calling, threads
from connectors.models import CallStatus
from connectors.selectors import ConnectionView
from connectors.server_spec import Era
from connectors.services import replies, tool_calls
from connectors.services.tool_calls import CallOutcome, CallRequest, Submitted
from gateway import asking, eras, hearing, interests
from gateway.exchange import Exchange
from gateway.projection import requests
from gateway.projection.results import Projection
from mcphub.core.errors import AuthorizationNeededError, HubError, UpstreamTimeoutError
from mcphub.core.types import JSONObject
from tenants.principal import Principal

GRACE_SECONDS = 60.0
STATE, RESPONSES = "requestState", "inputResponses"
"""What a client's retry says to the hub; the server has its own state (see connectors)."""

_cancelling: set[asyncio.Task[Any]] = set()


async def run(
    exchange: Exchange,
    connection: ConnectionView,
    *,
    target: str,
    params: JSONObject,
    projection: Projection | None = None,
    seconds: float | None = None,
) -> JSONObject:
    """Make a request of a server and return its result as this client is to see it.

    Raises ProtocolError with the server's own error, HubError for the hub's.
    """
    shown = projection or projection_of(exchange, connection)
    terms = hearing.terms_of(exchange, shown)
    call_id = await asking.resume(exchange, terms)
    if call_id is None:
        request = CallRequest(
            method=exchange.request.method,
            target=target,
            params=_upstream_params(exchange, connection, params),
            timeout=seconds,
            relay=terms,
        )
        call_id = await _submit(exchange, connection, request)
    try:
        found = await _see_through(exchange, call_id, shown)
    except asyncio.CancelledError:
        if exchange.is_cancelled:
            _spawn(threads.run(tool_calls.cancel, exchange.principal, call_id))
        raise
    finally:
        tool_calls.forget(call_id)
    if not isinstance(found, CallOutcome):
        return found
    method = exchange.request.method
    own = await _result_of(exchange.principal, connection, found)
    await interests.note_task(exchange.session, connection.id, own)
    result = shown.result(method, own)
    return eras.result_for(exchange.era, method, result)


def projection_of(exchange: Exchange, connection: ConnectionView) -> Projection:
    """Return how results of a server look at the exchange's endpoint; lists need more than this."""
    is_identity = not exchange.endpoint.is_aggregate
    return Projection(server=connection.slug, is_identity=is_identity)


async def _see_through(
    exchange: Exchange, call_id: uuid.UUID, projection: Projection
) -> CallOutcome | JSONObject:
    """Return the end of a call, or what a modern client has to answer before."""
    longest = settings.CALL_TIMEOUT_MAX + settings.INPUT_EXPIRY + GRACE_SECONDS
    async with asking.Questions.of(exchange, call_id, projection) as questions:
        with replies.current().rounds(call_id) as rounds:
            while True:
                outcome = await rounds.next(longest)
                if outcome is None:
                    raise UpstreamTimeoutError
                if outcome.status is not CallStatus.INPUT_REQUIRED:
                    return outcome
                required = await questions.look()
                if required is not None:
                    return required


async def _submit(
    exchange: Exchange, connection: ConnectionView, request: CallRequest
) -> uuid.UUID:
    """Commit the call. Who gives up meanwhile cancels a call that was accepted nevertheless."""
    submitting = asyncio.ensure_future(tool_calls.submit(exchange.principal, connection, request))
    try:
        return (await asyncio.shield(submitting)).id
    except AuthorizationNeededError as exc:
        exc.extra = {"authorizationUrl": await _address(exchange.principal, connection)}
        raise
    except asyncio.CancelledError:
        if exchange.is_cancelled:
            _spawn(_cancel_accepted(exchange.principal, submitting))
        raise


def _upstream_params(
    exchange: Exchange, connection: ConnectionView, params: JSONObject
) -> JSONObject:
    """Return what the server gets: without what the client says about its own hop."""
    own = _own_params(exchange, connection)
    kept = {key: value for key, value in params.items() if key not in own}
    sent = requests.own_related_task(requests.without_envelope(kept))
    level = exchange.request.meta.get(LOG_LEVEL_META_KEY)
    if exchange.session is not None:
        level = exchange.session.log_level or None
    if level is None or connection.era != Era.MODERN:
        return sent
    meta = sent.get("_meta")
    return {
        **sent,
        "_meta": {**(meta if isinstance(meta, dict) else {}), LOG_LEVEL_META_KEY: level},
    }


def _own_params(exchange: Exchange, connection: ConnectionView) -> Collection[str]:
    """Return the params that stay here; answers of a first request are for the server's questions.

    They need no state of the hub, and a server ignores those it does not ask for.
    """
    if exchange.request.method not in INPUT_REQUIRED_METHODS:
        return ()
    is_modern_throughout = exchange.era == connection.era == Era.MODERN
    return (STATE,) if is_modern_throughout else (STATE, RESPONSES)


async def _result_of(
    principal: Principal, connection: ConnectionView, outcome: CallOutcome
) -> JSONObject:
    """Return the result as the server gave it. Raises ProtocolError, HubError."""
    try:
        result: JSONObject = json.loads(calling.result_bytes(outcome))
    except HubError as exc:
        if exc.problem_code == AuthorizationNeededError.code:
            address = await _address(principal, connection)
            exc.extra = {**exc.extra, "authorizationUrl": address}
        raise
    return result


async def _address(principal: Principal, connection: ConnectionView) -> str | None:
    """Return where the member can sign in now."""
    return await threads.run(selectors.authorization_url_for, principal, connection.id)


async def _cancel_accepted(principal: Principal, submitting: asyncio.Future[Submitted]) -> None:
    try:
        accepted = await submitting
    except HubError:
        return
    await threads.run(tool_calls.cancel, principal, accepted.id)


def _spawn(work: Coroutine[Any, Any, Any]) -> None:
    task = asyncio.get_running_loop().create_task(work)
    _cancelling.add(task)
    task.add_done_callback(_cancelling.discard)
