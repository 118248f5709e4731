"""The gateway's ASGI application: MCP at /mcp, /mcp/s/{server} and …/sse, and its metadata.

Everything else goes to the application behind it. It never redirects: MCP clients do not follow.
"""

from __future__ import annotations

import json
import logging
import re
from dataclasses import replace

from django.db import DatabaseError
from mcp_types.jsonrpc import INVALID_REQUEST

from gateway import auth, handshake, legacy_sse, modern, wire
from gateway.auth import Arrival
from gateway.endpoint import PATH, Endpoint, read_names
from gateway.http import METHODS, Answer, HttpRequest, check_origin, preflight, read_body
from gateway.wire import RpcFault
from mcphub.api.errors import InternalError, MethodNotAllowedError, UnsupportedMediaTypeError
from mcphub.core.errors import (
    HubError,
    NotAuthenticatedError,
    NotFoundError,
    UnavailableError,
)
from mcphub.lean import Application, ClientGoneError, Receive, Scope, Send

logger = logging.getLogger(__name__)


class GatewayApplication:
    """ASGI: requests of MCP clients are answered here, everything else by `behind`."""

    def __init__(self, behind: Application) -> None:
        self._behind = behind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"] if scope["type"] == "http" else ""
        if path == "/mcp" or path.startswith("/mcp/"):
            await _serve(HttpRequest.of(scope), receive, send)
        elif path == auth.WELL_KNOWN or path.startswith(f"{auth.WELL_KNOWN}/mcp"):
            await _tell_metadata(HttpRequest.of(scope), send)
        else:
            await self._behind(scope, receive, send)


async def _serve(request: HttpRequest, receive: Receive, send: Send) -> None:
    if request.method == "OPTIONS":
        await preflight(request, send)
        return
    answer = Answer(request, send)
    match = PATH.fullmatch(request.path)
    endpoint = Endpoint(server=match["server"] if match else None)
    try:
        await check_origin(request)
        answer.allow_origin(request)
        endpoint = narrowed(endpoint, request)
        shown = auth.shown_by(request, endpoint)
        arrival = Arrival(
            request=request,
            answer=answer,
            receive=receive,
            endpoint=endpoint,
            shown=shown,
            principal=await auth.authenticate(shown),
        )
        await _route(match, arrival)
    except ClientGoneError:
        return
    except RpcFault as exc:
        await answer.finish(wire.status_of(exc.error), wire.failure(None, exc.error))
    except Exception as exc:  # noqa: BLE001  (answered, and logged there)
        await _refuse(answer, endpoint, exc)


def narrowed(endpoint: Endpoint, request: HttpRequest) -> Endpoint:
    """Return the endpoint as the query narrows it. Raises MalformedRequestError."""
    query = request.query()
    return replace(
        endpoint,
        servers=read_names(query.get("servers", [])),
        tools=read_names(query.get("tools", [])),
        is_search=query.get("mode", []) == ["search"],
    )


async def _route(match: re.Match[str] | None, arrival: Arrival) -> None:
    """Hand a request to its transport. Raises HubError, RpcFault."""
    if match is None:
        raise NotFoundError("There is no MCP endpoint here; see /mcp and /mcp/s/{server}.")
    is_sse, is_message = match["sse"] is not None, match["messages"] is not None
    method = arrival.request.method
    if method == "POST" and (is_message or not is_sse):
        if not arrival.request.has_json:
            raise UnsupportedMediaTypeError("The body of a POST is application/json.")
        value = wire.read_body(await read_body(arrival.receive))
        if is_message:
            await legacy_sse.post(arrival, value)
            return
        arrival.answer.check_acceptable()
        transport = modern if modern.is_modern(arrival.request, value) else handshake
        await transport.post(arrival, value)
    elif method == "GET" and not is_message:
        await (legacy_sse if is_sse else handshake).get(arrival)
    elif method == "DELETE" and not is_sse:
        await handshake.delete(arrival)
    else:
        raise MethodNotAllowedError("See the header Allow.")


async def _refuse(answer: Answer, endpoint: Endpoint, exc: Exception) -> None:
    """Answer for an error of the transport, which is about no single message."""
    error: HubError
    if isinstance(exc, HubError):
        error = exc
    elif isinstance(exc, DatabaseError):
        logger.warning("database away error=%s", type(exc).__name__)
        error = UnavailableError("The database is away.", retry_after=1.0)
    else:
        logger.error("unexpected", exc_info=exc)
        error = InternalError()
    if isinstance(error, NotAuthenticatedError):
        answer.add_headers({"www-authenticate": auth.challenge_of(error, endpoint)})
    if isinstance(error, MethodNotAllowedError):
        answer.add_headers({"allow": METHODS})
    await answer.refuse(error, code=INVALID_REQUEST if error.status < 500 else None)


async def _tell_metadata(request: HttpRequest, send: Send) -> None:
    """Answer the metadata of the endpoint whose path follows the well-known one (RFC 9728 §3)."""
    if request.method == "OPTIONS":
        await preflight(request, send)
        return
    answer = Answer(request, send)
    path = request.path.removeprefix(auth.WELL_KNOWN) or "/mcp"
    match = PATH.fullmatch(path)
    try:
        await check_origin(request)
        answer.allow_origin(request)
        if match is None:
            raise NotFoundError
        if request.method not in {"GET", "HEAD"}:
            raise MethodNotAllowedError
    except HubError as exc:
        await answer.refuse(exc)
        return
    endpoint = Endpoint(server=match["server"])
    await answer.whole_json(json.dumps(auth.metadata_of(endpoint.path)).encode())
