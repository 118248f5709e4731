"""What servers ask in the course of a call, read from the wire with suspicion (pure; P14).

elicitation/create, sampling/createMessage, roots/list   a request during the call
InputRequiredResult                                      2026-07-28: the answer to the call
error -32042 with data.elicitations                      2025-11-25: pages to finish before
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from mcp_types.jsonrpc import INVALID_PARAMS, URL_ELICITATION_REQUIRED

from connectors.models import InputKind, InputState
from mcphub.core.errors import ProtocolError, RpcError, UpstreamError
from mcphub.core.types import JSONObject, JSONValue

MAX_ROUNDS = 10
STATE_BYTES = 64 << 10
PARAMS_BYTES = 256 << 10
MOST_ASKED = 16
KEY_LENGTH = 255
PAUSES = (0.05, 0.1, 0.25)
"""Waits before a call is sent again that got a state and no question."""

ASKING = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Methods whose answer may be questions (basic/utilities/mrtr)."""
REJECTED = -1
"""JSON-RPC code by which a user's refusal of a sampling request is told (client/sampling)."""


class InputRefusedError(UpstreamError):
    """The server asked what it may not ask, or in a form that nobody can answer."""

    code = "input_refused"
    title = "The server asked for input that it may not ask for"


class TooManyRoundsError(UpstreamError):
    code = "too_many_input_rounds"
    title = "The server asked for input again and again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One question; `key` names it in a round, `elicitation_id` in notifications."""

    kind: InputKind
    method: str
    params: JSONObject
    key: str = ""
    elicitation_id: str = ""
    needs_completion: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Questions that are the answer to a call; without any, it is just to be sent again."""

    asked: tuple[Asked, ...]
    request_state: str | None = None

    @property
    def is_only_state(self) -> bool:
        return not self.asked


def read_request(method: str, params: JSONObject, declared: JSONObject, key: str = "") -> Asked:
    """Return the question in a request of the server. Raises ProtocolError."""
    if len(json.dumps(params)) > PARAMS_BYTES:
        raise _bad("The request is too large.")
    if method == "sampling/createMessage" and "sampling" in declared:
        if not isinstance(params.get("messages"), list):
            raise _bad("A sampling request needs messages.")
        return Asked(kind=InputKind.SAMPLING, method=method, params=params, key=key)
    if method == "roots/list" and "roots" in declared:
        return Asked(kind=InputKind.ROOTS, method=method, params=params, key=key)
    if method == "elicitation/create" and "elicitation" in declared:
        return _elicitation(params, key, declared["elicitation"])
    raise _bad("The request was not declared.")


def read_result(result: JSONObject, method: str, declared: JSONObject, rounds: int) -> Round | None:
    """Return the questions in an answer, None when it has none.

    Raises InputRefusedError, TooManyRoundsError.
    """
    if result.get("resultType") != "input_required":
        return None
    if method not in ASKING:
        raise InputRefusedError(was_answered=True)
    if rounds >= MAX_ROUNDS:
        raise TooManyRoundsError(was_answered=True)
    state = result.get("requestState")
    requests = result.get("inputRequests") or {}
    if not isinstance(state, str | None) or not isinstance(requests, dict):
        raise InputRefusedError(was_answered=True)
    if len((state or "").encode("utf-8", "surrogatepass")) > STATE_BYTES:
        raise InputRefusedError("The request state is too large.", was_answered=True)
    if len(requests) > MOST_ASKED or (not requests and state is None):
        raise InputRefusedError(was_answered=True)
    asked = tuple(_of_round(key, request, declared) for key, request in requests.items())
    return Round(asked=asked, request_state=state)


def read_error(error: ProtocolError, declared: JSONObject, rounds: int) -> Round | None:
    """Return the pages that a server of 2025-11-25 wants finished before the call, if any.

    Raises InputRefusedError, TooManyRoundsError.
    """
    if error.rpc.code != URL_ELICITATION_REQUIRED or "elicitation" not in declared:
        return None
    listed = error.rpc.data.get("elicitations") if isinstance(error.rpc.data, dict) else None
    if not isinstance(listed, list) or not 0 < len(listed) <= MOST_ASKED:
        return None
    if rounds >= MAX_ROUNDS:
        raise TooManyRoundsError(was_answered=True)
    modes = declared["elicitation"]
    return Round(asked=tuple(_page(number, each, modes) for number, each in enumerate(listed)))


def next_params(
    params: JSONObject, request_state: str | None, answers: Mapping[str, JSONObject]
) -> JSONObject:
    """Return the params of the next sending; the state goes back exactly as it came."""
    following = dict(params)
    if answers:
        following["inputResponses"] = dict(answers)
    if request_state is not None:
        following["requestState"] = request_state
    return following


def refusal_of(kind: InputKind, state: InputState) -> JSONObject:
    """Return the result for a question that was not answered. Raises ProtocolError without one."""
    if kind in {InputKind.FORM, InputKind.URL}:
        return {"action": "decline" if state is InputState.DECLINED else "cancel"}
    raise ProtocolError(rpc_code=REJECTED, rpc_message="The user rejected the request")


def refusal(error: RpcError) -> JSONObject:
    """Return what is stored of the error with which a client refused."""
    return {"code": error.code, "message": error.message, "data": error.data}


def refused_with(stored: JSONObject) -> ProtocolError:
    """Return the error that `refusal` stored, for the server."""
    code, message = stored["code"], stored["message"]
    if not isinstance(code, int) or not isinstance(message, str):
        raise TypeError("not a stored refusal")
    return ProtocolError(rpc_code=code, rpc_message=message, rpc_data=stored["data"])


def _elicitation(params: JSONObject, key: str, modes: JSONValue) -> Asked:
    if not isinstance(params.get("message"), str):
        raise _bad("An elicitation needs a message.")
    mode = params.get("mode", "form")
    if not isinstance(modes, dict) or mode not in modes:
        raise _bad("An elicitation of this mode was not declared.")
    if mode == "url":
        _check_url(params.get("url"))
        named = params.get("elicitationId")
        return Asked(
            kind=InputKind.URL,
            method="elicitation/create",
            params=params,
            key=key,
            elicitation_id=named[:KEY_LENGTH] if isinstance(named, str) else "",
        )
    schema = params.get("requestedSchema")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise _bad("An elicitation needs the schema of an object.")
    return Asked(kind=InputKind.FORM, method="elicitation/create", params=params, key=key)


def _check_url(value: JSONValue) -> None:
    """Refuse what no browser should be sent to; the address itself is never opened here (O16)."""
    try:
        parts = urlsplit(value) if isinstance(value, str) else None
        is_page = parts is not None and parts.scheme in {"https", "http"} and bool(parts.hostname)
    except ValueError:
        is_page = False
    if not is_page:
        raise _bad("An elicitation in URL mode needs the address of a page.")


def _of_round(key: str, request: JSONValue, declared: JSONObject) -> Asked:
    if not isinstance(request, dict) or len(key) > KEY_LENGTH:
        raise InputRefusedError(was_answered=True)
    params = request.get("params")
    try:
        method = str(request.get("method"))
        return read_request(method, params if isinstance(params, dict) else {}, declared, key)
    except ProtocolError as exc:
        raise InputRefusedError(exc.rpc.message, was_answered=True) from exc


def _page(number: int, listed: JSONValue, modes: JSONValue) -> Asked:
    if not isinstance(listed, dict):
        raise InputRefusedError(was_answered=True)
    try:
        page = _elicitation({"mode": "url", **listed}, f"page{number}", modes)
    except ProtocolError as exc:
        raise InputRefusedError(exc.rpc.message, was_answered=True) from exc
    if page.kind is not InputKind.URL:
        raise InputRefusedError(was_answered=True)
    return Asked(
        kind=page.kind,
        method=page.method,
        params=page.params,
        key=page.key,
        elicitation_id=page.elicitation_id,
        needs_completion=True,
    )


def _bad(text: str) -> ProtocolError:
    return ProtocolError(rpc_code=INVALID_PARAMS, rpc_message=text)
