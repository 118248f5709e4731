"""The hot routes: plain async views, reached by the lean chain (mcphub/lean.py)."""

from __future__ import annotations

import json
import uuid

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from connectors import selectors
from connectors.api import calling, outputs, threads
from connectors.api.calling import Wanted
from connectors.models import CallStatus, ToolCall
from connectors.models.tool_call import OPEN_STATUSES
from connectors.services import tool_calls
from mcphub.api.asynchronous import json_body
from mcphub.api.parsers import body_limit
from mcphub.core.errors import FieldProblem, InvalidInputError, NotFoundError
from mcphub.core.types import JSONObject, JSONValue
from tenants.api.asynchronous import async_view
from tenants.principal import Principal, Scope

READ_MEMBERS = frozenset({"uri", "_meta", "timeoutMs"})
PROMPT_MEMBERS = frozenset({"name", "arguments", "_meta", "timeoutMs"})
COMPLETE_MEMBERS = frozenset({"ref", "argument", "context", "_meta", "timeoutMs"})


def body_of(request: HttpRequest) -> JSONObject:
    return json_body(request, limit=body_limit())


@async_view("POST", scope=Scope.TOOLS_CALL)
async def call_tool(
    request: HttpRequest, principal: Principal, server: str, tool: str
) -> HttpResponse:
    wanted = calling.with_headers(calling.read_tool_call(body_of(request), tool), request)
    target = await selectors.connection_for_call(principal, server, tool)
    ran = await calling.run(principal, target, calling.resolved(target, wanted))
    return await calling.answer(principal, ran)


@async_view("POST", scope=Scope.TOOLS_CALL)
async def read_resource(request: HttpRequest, principal: Principal, server: str) -> HttpResponse:
    body = body_of(request)
    problems = calling.unknown_members(body, READ_MEMBERS)
    uri = body.get("uri")
    if not isinstance(uri, str) or not uri:
        problems.append(FieldProblem(path="/uri", message="The URI of the resource."))
    wanted = _wanted("resources/read", str(uri), body, problems)
    return await _relay(request, principal, server, wanted)


@async_view("POST", scope=Scope.TOOLS_CALL)
async def get_prompt(request: HttpRequest, principal: Principal, server: str) -> HttpResponse:
    body = body_of(request)
    problems = calling.unknown_members(body, PROMPT_MEMBERS)
    name = body.get("name")
    if not isinstance(name, str) or not name:
        problems.append(FieldProblem(path="/name", message="The name of the prompt."))
    if not _is_text_map(body.get("arguments", {})):
        problems.append(FieldProblem(path="/arguments", message="An object of texts."))
    wanted = _wanted("prompts/get", str(name), body, problems)
    return await _relay(request, principal, server, wanted)


@async_view("POST", scope=Scope.TOOLS_CALL)
async def complete(request: HttpRequest, principal: Principal, server: str) -> HttpResponse:
    body = body_of(request)
    problems = calling.unknown_members(body, COMPLETE_MEMBERS)
    problems += [
        FieldProblem(path=f"/{name}", message="This has to be an object.")
        for name in ("ref", "argument")
        if not isinstance(body.get(name), dict)
    ]
    wanted = _wanted("completion/complete", "", body, problems)
    return await _relay(request, principal, server, wanted)


@async_view("GET", scope=Scope.SERVERS_READ)
async def call(request: HttpRequest, principal: Principal, call_id: str) -> HttpResponse:
    pk = as_call_id(call_id)
    row = await threads.run(selectors.call_for, principal, pk)
    seconds = _wait_of(request)
    if seconds and row.status in OPEN_STATUSES:
        is_parked = row.status == CallStatus.INPUT_REQUIRED
        await tool_calls.wait(pk, seconds, past_questions=is_parked)
        row = await threads.run(selectors.call_for, principal, pk)
    return HttpResponse(call_bytes(row), content_type="application/json")


def call_bytes(row: ToolCall) -> bytes:
    """Return a call as JSON; the outcome goes in as the bytes that the server's answer had."""
    outcome = tool_calls.outcome_of(row).outcome_json or b"null"
    return json.dumps(outputs.call(row)).encode()[:-1] + b',"outcome":' + outcome + b"}"


def as_call_id(text: str) -> uuid.UUID:
    """Return the id; anything that is none is just not found."""
    try:
        return uuid.UUID(text)
    except ValueError as exc:
        raise NotFoundError from exc


def _wanted(method: str, target: str, body: JSONObject, problems: list[FieldProblem]) -> Wanted:
    timeout = calling.read_timeout(body, problems)
    if not isinstance(body.get("_meta", {}), dict):
        problems.append(FieldProblem(path="/_meta", message="This has to be an object."))
    if problems:
        raise InvalidInputError(problems=problems)
    params = {name: value for name, value in body.items() if name != "timeoutMs"}
    return Wanted(method=method, target=target, params=params, timeout=timeout)


async def _relay(
    request: HttpRequest, principal: Principal, server: str, wanted: Wanted
) -> HttpResponse:
    target = await selectors.connection_for_call(principal, server)
    ran = await calling.run(principal, target, calling.with_headers(wanted, request))
    return await calling.answer(principal, ran)


def _is_text_map(value: JSONValue) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _wait_of(request: HttpRequest) -> float:
    """Return the seconds of `?wait=`. Raises InvalidInputError."""
    text = request.GET.get("wait", "0")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    longest = float(settings.CALL_WAIT)
    if not 0 <= seconds <= longest:  # NaN compares false
        problem = FieldProblem(path="/wait", message=f"Seconds from 0 to {longest:g}.")
        raise InvalidInputError(problems=[problem])
    return seconds
