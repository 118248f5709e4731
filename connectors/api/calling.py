"""From a request to a call and its answer: what the hot routes, batches and model calls share.

Bodies are parsed once; a result goes out as the bytes that came from the worker.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse

from connectors import selectors
from connectors.api import threads
from connectors.argument_check import shared_checker
from connectors.models import CallStatus
from connectors.selectors import CallTarget
from connectors.services import tool_calls, tool_policy
from connectors.services.tool_calls import CallOutcome, CallRequest, Submitted
from mcphub.api.problems import PROBLEMS
from mcphub.core.errors import (
    AuthorizationNeededError,
    FieldProblem,
    HubError,
    InvalidInputError,
    ProtocolError,
)
from mcphub.core.types import JSONObject, JSONValue
from tenants.principal import Principal

WAIT = re.compile(r"wait=(\d{1,6})")
RESULT, ERROR = b'{"result":', b'{"error":'
CALL_MEMBERS = frozenset({"arguments", "_meta", "timeoutMs", "sendAnyway"})
UNCHECKED = "Mcphub-Arguments"
FLAWED = "Mcphub-Result"


class InvalidArgumentsError(InvalidInputError):
    code = "invalid_arguments"
    title = "The arguments do not fit the tool's schema"


class CallEndedError(HubError):
    """Stands for the problem that a call ended with; the ledger has its code."""

    def __init__(self, code: str, detail: str) -> None:
        known = PROBLEMS.get(code)
        super().__init__(detail, code=code)
        self.status = known.status if known else 502  # type: ignore[misc]  # of this one problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One request of an app, read and checked in shape; seconds for `timeout`."""

    method: str
    target: str
    params: JSONObject
    timeout: float | None = None
    may_skip_check: bool = False
    idempotency_key: str | None = None
    body_hash: str = ""
    wait: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """An accepted call; `outcome` None: it is still on its way."""

    submitted: Submitted
    outcome: CallOutcome | None
    has_waited: bool = False
    notes: Mapping[str, str] = field(default_factory=dict)
    authorization_url: str | None = None


def read_tool_call(body: JSONObject, tool: str) -> Wanted:
    """Read `{arguments, _meta?, timeoutMs?, sendAnyway?}`. Raises InvalidInputError."""
    problems = unknown_members(body, CALL_MEMBERS)
    arguments = _object(body, "arguments", problems)
    params: JSONObject = {"name": tool, "arguments": arguments}
    if "_meta" in body:
        params["_meta"] = _object(body, "_meta", problems)
    send_anyway = body.get("sendAnyway", False)
    if not isinstance(send_anyway, bool):
        problems.append(FieldProblem(path="/sendAnyway", message="true or false"))
    timeout = read_timeout(body, problems)
    if problems:
        raise InvalidInputError(problems=problems)
    return Wanted(
        method="tools/call",
        target=tool,
        params=params,
        timeout=timeout,
        may_skip_check=send_anyway is True,
    )


def read_timeout(body: JSONObject, problems: list[FieldProblem]) -> float | None:
    """Return seconds; a wrong `timeoutMs` is added to `problems`."""
    value = body.get("timeoutMs")
    if value is None:
        return None
    longest = round(settings.CALL_TIMEOUT_MAX * 1000)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= longest:
        problems.append(
            FieldProblem(path="/timeoutMs", message=f"A whole number from 1 to {longest}.")
        )
        return None
    return value / 1000


def unknown_members(body: JSONObject, known: frozenset[str]) -> list[FieldProblem]:
    return [
        FieldProblem(
            path=f"/{name[:100]}", message="There is no such member.", code="unknown_member"
        )
        for name in sorted(body.keys() - known)
    ]


def with_headers(wanted: Wanted, request: HttpRequest) -> Wanted:
    """Add what the headers say: Idempotency-Key, Prefer (RFC 7240)."""
    key = request.headers.get("Idempotency-Key")
    return replace(
        wanted,
        idempotency_key=key,
        body_hash=hash_of(request.body) if key is not None else "",
        wait=preferred_wait(request.headers.get("Prefer", "")),
    )


def hash_of(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def preferred_wait(prefer: str) -> float:
    """Return how long to wait for the end: `respond-async` not at all, `wait=N` at most N."""
    longest = float(settings.CALL_WAIT)
    match = WAIT.search(prefer)
    if match is not None:
        return min(float(match[1]), longest)
    return 0.0 if "respond-async" in prefer else longest


async def run(principal: Principal, target: CallTarget, wanted: Wanted) -> Ran:
    """Check, submit, and wait as long as wanted. Raises HubError when nothing was accepted.

    Who goes away while waiting does not end the call: the ledger has it.
    """
    notes: dict[str, str] = {}
    if wanted.method == "tools/call":
        tool_policy.check(principal, target.tool)
    if target.tool is not None and not wanted.may_skip_check:
        notes = await _check(target, wanted.params["arguments"])
    request = CallRequest(
        method=wanted.method,
        target=wanted.target,
        params=wanted.params,
        timeout=wanted.timeout,
        idempotency_key=wanted.idempotency_key,
        body_hash=wanted.body_hash,
        will_wait=wanted.wait > 0,
    )
    try:
        submitted = await tool_calls.submit(principal, target.connection, request)
    except AuthorizationNeededError as exc:
        exc.extra = {"authorizationUrl": await _address(principal, target)}
        raise
    if submitted.is_replayed:
        notes["Idempotent-Replayed"] = "true"
    outcome = None
    if wanted.wait > 0:
        outcome = await tool_calls.wait(submitted.id, wanted.wait)
        if outcome is not None and outcome.status is CallStatus.INPUT_REQUIRED:
            outcome = None  # a person is asked, which takes longer than anybody waits here
    if outcome is not None and _lacks_structure(target, outcome):
        notes[FLAWED] = "flawed; reason=no_structured_content"
    address = None
    if outcome is not None and outcome.problem_code == AuthorizationNeededError.code:
        address = await _address(principal, target)
    return Ran(
        submitted=submitted,
        outcome=outcome,
        has_waited=wanted.wait > 0,
        notes=notes,
        authorization_url=address,
    )


async def _address(principal: Principal, target: CallTarget) -> str | None:
    """Return where the member can sign in now."""
    return await threads.run(selectors.authorization_url_for, principal, target.connection.id)


def resolved(target: CallTarget, wanted: Wanted) -> Wanted:
    """Return the request under the server's own name of the tool."""
    if target.tool is None or target.tool.name == wanted.target:
        return wanted
    name = target.tool.name
    return replace(wanted, target=name, params={**wanted.params, "name": name})


async def answer(principal: Principal, ran: Ran) -> HttpResponse:
    """Return 200 with the server's result, or 202 while there is none.

    Raises the problem that the call ended with.
    """
    call_id = str(ran.submitted.id)
    headers = {"Mcphub-Call-Id": call_id, **ran.notes}
    if ran.outcome is not None:
        content = answer_bytes(ran)
        return HttpResponse(content, content_type="application/json", headers=headers)
    status = "queued"
    if ran.has_waited:
        row = await threads.run(selectors.call_for, principal, ran.submitted.id)
        status = selectors.wire_status(row.status)
    headers["Location"] = f"/api/v1/calls/{call_id}"
    return JsonResponse({"id": call_id, "status": status}, status=202, headers=headers)


def answer_bytes(ran: Ran) -> bytes:
    """Return the result of a call that has ended. Raises as `result_bytes`."""
    if ran.outcome is None:
        raise CallEndedError("timeout", "The call has not ended.")
    try:
        return result_bytes(ran.outcome)
    except CallEndedError as exc:
        if ran.authorization_url is not None:
            exc.extra = {**exc.extra, "authorizationUrl": ran.authorization_url}
        raise


def result_bytes(outcome: CallOutcome) -> bytes:
    """Return the result as the server gave it. Raises ProtocolError or the hub's own problem."""
    content = outcome.outcome_json
    if outcome.status is CallStatus.SUCCEEDED and content is not None:
        if content.startswith(RESULT):
            return content[len(RESULT) : -1]
        return json.dumps(json.loads(content)["result"]).encode()
    raise problem_of(outcome)


def problem_of(outcome: CallOutcome) -> HubError:
    """Return the error that an unsuccessful call ended with."""
    status = selectors.wire_status(outcome.status.value)
    extra: JSONObject = {"callId": str(outcome.id), "callStatus": status}
    error: HubError
    if outcome.outcome_json is not None and outcome.outcome_json.startswith(ERROR):
        rpc: dict[str, Any] = json.loads(outcome.outcome_json)["error"]
        error = ProtocolError(
            rpc_code=rpc["code"], rpc_message=rpc["message"], rpc_data=rpc.get("data")
        )
    else:
        code = outcome.problem_code or outcome.status.value
        error = CallEndedError(code, outcome.problem_detail)
    error.extra = extra
    return error


async def _check(target: CallTarget, arguments: JSONValue) -> dict[str, str]:
    """Return headers that say what was not checked. Raises InvalidArgumentsError."""
    tool = target.tool
    schema = tool.item.get("inputSchema") if tool else None
    if tool is None or schema is None:
        return {UNCHECKED: "unchecked; reason=no_schema"}
    checked = await shared_checker().check(schema, arguments, digest=tool.digest)
    if not checked.is_checked:
        return {UNCHECKED: f"unchecked; reason={checked.reason.value}"}
    if checked.problems:
        raise InvalidArgumentsError(problems=checked.problems)
    return {}


def _lacks_structure(target: CallTarget, outcome: CallOutcome) -> bool:
    """Whether a result lacks what its tool promises; it is delivered, since the call did happen."""
    is_promised = target.tool is not None and "outputSchema" in target.tool.item
    is_result = outcome.status is CallStatus.SUCCEEDED and not outcome.is_tool_error
    content = outcome.outcome_json or b""
    return is_promised and is_result and b'"structuredContent":' not in content


def _object(body: JSONObject, name: str, problems: list[FieldProblem]) -> JSONObject:
    value = body.get(name, {})
    if isinstance(value, dict):
        return value
    problems.append(FieldProblem(path=f"/{name}", message="This has to be an object."))
    return {}
