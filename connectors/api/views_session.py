"""What a session itself is asked: whether the server answers, and how much it is to log."""

from __future__ import annotations

import time

from django.http import HttpRequest, HttpResponse, JsonResponse

from connectors import selectors
from connectors.api import calling, inputs, threads
from connectors.api.calling import Wanted
from connectors.models import Connection
from connectors.selectors import NotConnectedError
from connectors.server_spec import Era
from connectors.services import connections
from connectors.states import State
from mcphub.api.asynchronous import json_body
from mcphub.api.parsers import body_limit
from mcphub.core.errors import ConflictError
from mcphub.core.types import JSONObject
from tenants.api.asynchronous import async_view
from tenants.principal import Principal, Scope

PING_SECONDS = 10.0


class NotOfferedError(ConflictError):
    code = "not_offered"
    title = "The server does not offer this"


@async_view("POST", scope=Scope.TOOLS_CALL)
async def ping(request: HttpRequest, principal: Principal, server: str) -> HttpResponse:
    """Answer how long the server took: `ping`, or `server/discover` where there is none."""
    inputs.EmptyInput.read(json_body(request, limit=body_limit()))
    target = await selectors.connection_for_call(principal, server)
    method = "server/discover" if target.connection.era == Era.MODERN else "ping"
    wanted = Wanted(
        method=method, target="", params={}, timeout=PING_SECONDS, wait=calling.preferred_wait("")
    )
    started = time.perf_counter()
    ran = await calling.run(principal, target, wanted)
    if ran.outcome is None:
        return await calling.answer(principal, ran)
    calling.result_bytes(ran.outcome)
    body: JSONObject = {"durationMs": round((time.perf_counter() - started) * 1000, 1)}
    return JsonResponse(body, headers={"Mcphub-Call-Id": str(ran.submitted.id)})


@async_view("POST", scope=Scope.TOOLS_CALL)
async def logging_level(request: HttpRequest, principal: Principal, server: str) -> HttpResponse:
    """Set from which level on the server logs; the messages come as `call.log` events."""
    level = inputs.LoggingLevelInput.read(json_body(request, limit=body_limit()))["level"]
    row = await threads.run(_logging_server, principal, server)
    if row.era != Era.MODERN:
        target = await selectors.connection_for_call(principal, server)
        wanted = Wanted(
            method="logging/setLevel",
            target=level,
            params={"level": level},
            wait=calling.preferred_wait(""),
        )
        ran = await calling.run(principal, target, wanted)
        if ran.outcome is None:
            return await calling.answer(principal, ran)
        calling.result_bytes(ran.outcome)
    await threads.run(connections.set_log_level, principal, row, level)
    selectors.targets.forget(principal, server)
    return JsonResponse({"level": level})


def _logging_server(principal: Principal, server: str) -> Connection:
    row = selectors.connection_for(principal, server)
    if row.state != State.CONNECTED.value:
        raise NotConnectedError
    if "logging" not in row.capabilities:
        raise NotOfferedError("The server does not declare the capability `logging`.")
    return row
