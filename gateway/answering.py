"""From an exchange to its response: the handler, and every way in which it can fail."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import DatabaseError
from mcp_types.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND

from gateway import auth, mailbox, wire
from gateway.auth import Arrival
from gateway.exchange import Exchange
from gateway.http import KEEP_ALIVE_SECONDS, until_gone
from gateway.methods import METHODS, Method
from gateway.wire import RpcFault
from mcphub.core.errors import HubError, RpcError, UnavailableError
from mcphub.core.types import JSONObject

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A JSON-RPC response and the HTTP status that it has where it is the whole answer."""

    message: JSONObject
    status: int = 200


async def respond(exchange: Exchange) -> Response:
    """Return the response to a request; only cancellation is raised."""
    request = exchange.request
    try:
        method = _method_of(exchange)
        async with exchange.telling():
            result = await method.handle(exchange)
        return Response(message=wire.success(request.id, result))
    except RpcFault as exc:
        return _failed(exchange, exc.error)
    except HubError as exc:
        is_opening = request.method in {"initialize", "server/discover"}
        status = exc.status if is_opening else None
        return _failed(exchange, wire.rpc_error_of(exc), status)
    except DatabaseError as exc:
        logger.warning("database away error=%s", type(exc).__name__)
        away = UnavailableError("The database is away.", retry_after=1.0)
        return _failed(exchange, wire.rpc_error_of(away))
    except Exception:
        logger.exception("unexpected method=%s", request.method[:100])
        error = RpcError(
            code=INTERNAL_ERROR, message="Internal error", data={"code": HubError.code}
        )
        return _failed(exchange, error)


def _method_of(exchange: Exchange) -> Method:
    name = exchange.request.method
    found = METHODS.get(name)
    if found is None or exchange.era not in found.eras:
        raise RpcFault(METHOD_NOT_FOUND, "Method not found", {"method": name[:200]})
    return found


def _failed(exchange: Exchange, error: RpcError, status: int | None = None) -> Response:
    by_era = wire.status_of(error) if exchange.is_modern else 200
    message = wire.failure(exchange.request.id, error)
    return Response(message=message, status=by_era if status is None else status)


async def serve(exchanges: list[Exchange], arrival: Arrival, *, is_batch: bool) -> None:
    """Answer the requests of one POST.

    A client that goes away cancels in the per-request era only; in the other its calls go on, and
    nobody waits for them here.
    """
    answer = arrival.answer
    async with running(exchanges) as tasks:
        gone = asyncio.ensure_future(until_gone(arrival.receive))
        try:
            is_answered = await _until_answered(tasks, gone, arrival)
        except HubError as exc:  # the credential has ended
            await answer.refuse(exc)
            return
        finally:
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
        if not is_answered:
            for exchange in exchanges:
                exchange.is_cancelled = exchange.is_cancelled or exchange.is_modern
            return
        responses = [task.result() for task in tasks if not task.cancelled()]
    if not responses:  # all of them were cancelled by the client
        await (answer.close() if answer.is_streaming else answer.empty(202))
    elif is_batch:
        await answer.finish(200, [response.message for response in responses])
    else:
        if not answer.is_streaming:
            answer.add_headers(exchanges[0].response_headers)
        await answer.finish(responses[0].status, responses[0].message)


@asynccontextmanager
async def running(exchanges: list[Exchange]) -> AsyncIterator[list[asyncio.Task[Response]]]:
    """Work on requests until the block ends; those of a session can be cancelled by its client."""
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(respond(exchange)) for exchange in exchanges]
    with ExitStack() as registered:
        for exchange, task in zip(exchanges, tasks, strict=True):
            if exchange.session is not None:
                cancel = partial(_cancel, exchange, task)
                entry = mailbox.current().running(exchange.session.id, exchange.request.id, cancel)
                registered.enter_context(entry)
        try:
            yield tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _cancel(exchange: Exchange, task: asyncio.Task[Response]) -> None:
    if exchange.request.method != "initialize":
        exchange.is_cancelled = True
        task.cancel()


async def _until_answered(
    tasks: list[asyncio.Task[Response]], gone: asyncio.Future[None], arrival: Arrival
) -> bool:
    """Wait for the end of all tasks; False: the client has gone. Raises as `auth.authenticate`."""
    work: asyncio.Future[Any] = asyncio.ensure_future(asyncio.wait(tasks))
    try:
        while True:
            await asyncio.wait(
                {work, gone}, timeout=KEEP_ALIVE_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            if work.done():
                return True
            if gone.done():
                arrival.answer.leave()
                return False
            await arrival.answer.keep_alive()
            try:
                await auth.authenticate(arrival.shown)
            except UnavailableError:
                logger.warning("stream not re-checked")
    finally:
        work.cancel()
