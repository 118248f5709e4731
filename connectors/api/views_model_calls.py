"""Many calls in one request, and calls in a model's own form; plain async views."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace

from django.http import HttpRequest, HttpResponse, JsonResponse

from connectors import selectors
from connectors.api import calling
from connectors.api.calling import Wanted
from connectors.api.views_hot import body_of
from connectors.provider_profiles import Format, read_call, result_message
from mcphub.api.errors import document_of
from mcphub.core.errors import FieldProblem, HubError, InvalidInputError
from mcphub.core.types import JSONObject, JSONValue
from tenants.api.asynchronous import async_view
from tenants.principal import Principal, Scope

MOST_CALLS = 100
PARALLEL, MOST_PARALLEL = 10, 50
BATCH_MEMBERS = frozenset({"calls", "parallel"})
LONGEST_KEY = 250
"""Of `Idempotency-Key` of a batch; the place of each call is added to it."""
ONE_MEMBERS = frozenset({"server", "tool", "idempotencyKey", *calling.CALL_MEMBERS})


@dataclass(frozen=True, slots=True, kw_only=True)
class One:
    """One call of a batch; `problem` says why it cannot even be tried."""

    server: str | None = None
    tool: str | None = None
    wanted: Wanted | None = None
    problem: HubError | None = None


@async_view("POST", scope=Scope.TOOLS_CALL)
async def batch(request: HttpRequest, principal: Principal) -> HttpResponse:
    """Each call has its own outcome, in the order of the request; never all or nothing."""
    body = body_of(request)
    calls, parallel = _read_batch(body)
    calls = _keyed(calls, request)
    wait = calling.preferred_wait(request.headers.get("Prefer", ""))
    places = asyncio.Semaphore(parallel)

    async def run(one: One) -> bytes:
        async with places:
            return await _outcome(request, principal, one, wait)

    parts = await asyncio.gather(*(run(one) for one in calls))
    return HttpResponse(b'{"results":[' + b",".join(parts) + b"]}", content_type="application/json")


@async_view("POST", scope=Scope.TOOLS_CALL)
async def model_call(request: HttpRequest, principal: Principal) -> HttpResponse:
    """Take a model's own call object, return the message that answers it."""
    wanted_format = _format_of(request)
    asked = read_call(wanted_format, body_of(request))
    target = await selectors.public_tool_for_call(principal, asked.public_name)
    params: JSONObject = {"name": asked.public_name, "arguments": asked.arguments}
    wanted = Wanted(method="tools/call", target=asked.public_name, params=params)
    wanted = calling.resolved(target, calling.with_headers(wanted, request))
    ran = await calling.run(principal, target, wanted)
    if ran.outcome is None:
        return await calling.answer(principal, ran)
    result: JSONObject = json.loads(calling.answer_bytes(ran))
    headers = {"Mcphub-Call-Id": str(ran.submitted.id), **ran.notes}
    return JsonResponse(result_message(wanted_format, asked, result), headers=headers)


def _format_of(request: HttpRequest) -> Format:
    try:
        return Format(request.GET.get("format", "mcp"))
    except ValueError as exc:
        known = ", ".join(each.value for each in Format)
        problem = FieldProblem(path="/format", message=f"One of {known}.")
        raise InvalidInputError(problems=[problem]) from exc


def _read_batch(body: JSONObject) -> tuple[list[One], int]:
    problems = calling.unknown_members(body, BATCH_MEMBERS)
    calls = body.get("calls")
    if not isinstance(calls, list) or not 1 <= len(calls) <= MOST_CALLS:
        problems.append(FieldProblem(path="/calls", message=f"A list of 1 to {MOST_CALLS} calls."))
        calls = []
    parallel = body.get("parallel", PARALLEL)
    if isinstance(parallel, bool) or not isinstance(parallel, int) or parallel < 1:
        problems.append(FieldProblem(path="/parallel", message="A whole number from 1."))
        parallel = PARALLEL
    if problems:
        raise InvalidInputError(problems=problems)
    return [_read_one(item) for item in calls], min(parallel, MOST_PARALLEL)


def _keyed(calls: list[One], request: HttpRequest) -> list[One]:
    """Give each call without a key of its own one made of `Idempotency-Key` and its place.

    All of them stand for the whole body: the key with any other body is refused.
    """
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return calls
    if not 0 < len(key) <= LONGEST_KEY:
        problem = FieldProblem(path="", message=f"Idempotency-Key: 1 to {LONGEST_KEY} characters.")
        raise InvalidInputError("The idempotency key cannot be used.", problems=[problem])
    digest = calling.hash_of(request.body)
    return [
        replace(
            one,
            wanted=replace(one.wanted, idempotency_key=f"{key}#{place}", body_hash=digest),
        )
        if one.wanted is not None and one.wanted.idempotency_key is None
        else one
        for place, one in enumerate(calls)
    ]


def _read_one(item: JSONValue) -> One:
    if not isinstance(item, dict):
        problem = FieldProblem(path="", message="This has to be an object.")
        return One(problem=InvalidInputError(problems=[problem]))
    server, tool, key = item.get("server"), item.get("tool"), item.get("idempotencyKey")
    problems = calling.unknown_members(item, ONE_MEMBERS)
    for name, value in (("server", server), ("tool", tool)):
        if not isinstance(value, str) or not value:
            problems.append(FieldProblem(path=f"/{name}", message="This has to be a text."))
    if not isinstance(key, str | None):
        problems.append(FieldProblem(path="/idempotencyKey", message="This has to be a text."))
    one = One(
        server=server if isinstance(server, str) else None,
        tool=tool if isinstance(tool, str) else None,
    )
    if problems:
        return replace(one, problem=InvalidInputError(problems=problems))
    inner = {name: value for name, value in item.items() if name in calling.CALL_MEMBERS}
    try:
        wanted = calling.read_tool_call(inner, str(tool))
    except InvalidInputError as exc:
        return replace(one, problem=exc)
    if isinstance(key, str):
        digest = calling.hash_of(json.dumps(inner, sort_keys=True).encode())
        wanted = replace(wanted, idempotency_key=key, body_hash=digest)
    return replace(one, wanted=wanted)


async def _outcome(request: HttpRequest, principal: Principal, one: One, wait: float) -> bytes:
    """Return one outcome as JSON: a result, a problem document, or an id to ask later."""
    told: JSONObject = {"server": one.server, "tool": one.tool, "id": None}
    try:
        if one.wanted is None or one.server is None:
            raise one.problem or InvalidInputError
        target = await selectors.connection_for_call(principal, one.server, one.tool)
        wanted = calling.resolved(target, replace(one.wanted, wait=wait))
        ran = await calling.run(principal, target, wanted)
        told["id"] = str(ran.submitted.id)
        if ran.outcome is None:
            return json.dumps({**told, "status": "queued"}).encode()
        result = calling.answer_bytes(ran)
    except HubError as exc:
        status = _status_of(exc)
        return json.dumps(
            {
                **told,
                "id": exc.extra.get("callId"),
                "status": status,
                "problem": document_of(exc, request),
            }
        ).encode()
    head = json.dumps({**told, "status": "succeeded"}).encode()
    return head[:-1] + b',"result":' + result + b"}"


def _status_of(error: HubError) -> str:
    """Return the ledger's word for the end, or `refused` when nothing was accepted."""
    status = error.extra.get("callStatus")
    return status if isinstance(status, str) else "refused"
