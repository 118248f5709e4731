"""Upward relay: what a server asks in the course of a call, brought to the client that made it.

The worker has parked the call (connectors.services.parking), whatever the server's era. A client of
the handshake era is asked on the stream of its POST, one of 2026-07-28 gets an InputRequiredResult
and answers with its retry. Both answers are stored as an app's answers are, so that the call goes
on wherever its worker is. Who did not offer to answer is never asked: the question stays in the
inbox (/api/v1/elicitations) until it expires.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import json
import logging
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from django.conf import settings
from mcp_types.jsonrpc import MISSING_REQUIRED_CLIENT_CAPABILITY

from connectors import selectors
from connectors.api import threads
from connectors.models import InputKind, InputRequest
from connectors.models.sealed import open_json
from connectors.services import input_answers, tool_calls
from connectors.services.input_answers import (
    Action,
    Answer,
    InputClosedError,
    InputExpiredError,
    InvalidAnswerError,
)
from connectors.services.subscriptions import Kind, Wish
from connectors.services.tool_calls import RelayTerms
from gateway import interests
from gateway.exchange import ClientCannotError, Exchange
from gateway.interests import Interest
from gateway.projection.results import Projection
from gateway.wire import Reply, RpcFault
from mcphub.core import clock
from mcphub.core.crypto import CredentialUnreadableError
from mcphub.core.errors import ConflictError, HubError, InvalidInputError
from mcphub.core.keys import key_ring
from mcphub.core.patience import database_patience
from mcphub.core.types import JSONObject, JSONValue
from tenants.principal import Principal

TRIES = 3
"""How often a client is asked whose answers do not fit the question."""
STATE_LENGTH = 4000

logger = logging.getLogger(__name__)


class InvalidStateError(InvalidInputError):
    code = "invalid_request_state"
    title = "The `requestState` is not one that the hub gave for this request, or has expired"


class InputNeededError(ConflictError):
    code = "input_needed"
    title = "The server asks something that this client did not offer to answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One open question of a call."""

    id: uuid.UUID
    connection_id: uuid.UUID
    key: str
    kind: InputKind
    method: str
    params: JSONObject = field(repr=False)
    is_consented: bool
    seconds: float
    """Until it expires."""


# --- asking --------------------------------------------------------------------------------------


class Questions:
    """The questions of one call, as the client that made it is asked them."""

    def __init__(self, exchange: Exchange, call_id: uuid.UUID, projection: Projection) -> None:
        self._exchange = exchange
        self._call_id = call_id
        self._projection = projection
        self._asking: dict[uuid.UUID, asyncio.Task[None]] = {}

    @classmethod
    @asynccontextmanager
    async def of(
        cls, exchange: Exchange, call_id: uuid.UUID, projection: Projection
    ) -> AsyncIterator[Questions]:
        """Ask until the block ends; what the client has not answered by then is taken back."""
        questions = cls(exchange, call_id, projection)
        try:
            yield questions
        finally:
            tasks = tuple(questions._asking.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def look(self) -> JSONObject | None:
        """Bring what is open to the client; returns a result that asks it, in 2026-07-28.

        Raises RpcFault, InputNeededError and ClientCannotError when this client cannot answer.
        """
        async with database_patience():
            found = await threads.run(_open_questions, self._exchange.principal, self._call_id)
        new = [each for each in found if each.id not in self._asking and not each.is_consented]
        for question in new:
            self._check_offered(question)
        if self._exchange.is_modern:
            return self._required(new) if new else None
        if new and not self._exchange.channel.can_stream:
            raise ClientCannotError(
                "The server asks something; this client takes no stream to be asked on.",
                extra=self._told,
            )
        for question in new:
            task = asyncio.get_running_loop().create_task(self._ask(question))
            self._asking[question.id] = task
        return None

    @property
    def _told(self) -> JSONObject:
        return {"callId": str(self._call_id)}

    def _check_offered(self, question: Question) -> None:
        missing = missing_capability(question, self._exchange.capabilities)
        if missing is None:
            return
        error = InputNeededError(
            "The server asks something that this client did not offer to answer. "
            "Answer it in the console or at /api/v1/elicitations: the call waits for it."
        )
        data: JSONObject = {**self._told, "requiredCapabilities": missing}
        if self._exchange.is_modern:
            told: JSONObject = {"code": error.problem_code, "detail": error.detail}
            raise RpcFault(MISSING_REQUIRED_CLIENT_CAPABILITY, error.title, {**data, **told})
        error.extra = data
        raise error

    def _required(self, questions: list[Question]) -> JSONObject:
        """Return the InputRequiredResult that asks for `questions`."""
        asked: JSONObject = {}
        for question in questions:
            params = self._projection.question(question.method, question.params)
            shown = {key: value for key, value in params.items() if key != "elicitationId"}
            asked[question.key] = {"method": question.method, "params": shown}
        state = _seal(self._exchange, self._call_id)
        return {"resultType": "input_required", "inputRequests": asked, "requestState": state}

    async def _ask(self, question: Question) -> None:
        """Ask a client of the handshake era until its answer fits."""
        params = dict(self._projection.question(question.method, question.params))
        if question.kind is InputKind.URL:
            params.setdefault("elicitationId", str(question.id))
        try:
            await self._expect_end(question)
            for _ in range(TRIES):
                reply = await self._exchange.ask(question.method, params, question.seconds)
                if await self._store(question, answer_to(question.kind, reply)):
                    return
            await self._store(question, Answer(action=Action.CANCEL))
        except HubError as exc:
            logger.info("question left to the inbox code=%s", exc.problem_code)

    async def _expect_end(self, question: Question) -> None:
        """Remember that this session is to hear of the end of what happens on a page."""
        session, named = self._exchange.session, question.params.get("elicitationId")
        if session is not None and question.kind is InputKind.URL and isinstance(named, str):
            wish = Wish(kind=Kind.ELICITATION, name=named)
            await interests.add(session, Interest(connection_id=question.connection_id, wish=wish))

    async def _store(self, question: Question, answer: Answer) -> bool:
        """Store an answer; False: it does not fit."""
        try:
            async with database_patience():
                await threads.run(_store, self._exchange.principal, question.id, answer)
        except InvalidAnswerError:
            return False
        except (InputClosedError, InputExpiredError):  # answered elsewhere, or too late
            return True
        return True


def answer_to(kind: InputKind, reply: Reply) -> Answer:
    """Return what a client's answer says; an error is a refusal, told as it is where it can be."""
    if reply.error is not None:
        has_errors = kind in {InputKind.SAMPLING, InputKind.ROOTS}
        return Answer(action=Action.DECLINE, error=reply.error if has_errors else None)
    return answer_in(kind, reply.result)


def answer_in(kind: InputKind, result: JSONObject) -> Answer:
    """Read the result of a question. An action that there is none of counts as `cancel`."""
    if kind in {InputKind.SAMPLING, InputKind.ROOTS}:
        return Answer(action=Action.ACCEPT, content=result)
    named = result.get("action")
    known = isinstance(named, str) and named in set(Action)
    action = Action(named) if known and isinstance(named, str) else Action.CANCEL
    return Answer(action=action, content=result.get("content"))


def missing_capability(question: Question, offered: JSONObject) -> JSONObject | None:
    """Return what a client has to declare to be asked this; None: it does."""
    if question.kind is InputKind.ROOTS:
        return None if "roots" in offered else {"roots": {}}
    if question.kind is InputKind.SAMPLING:
        declared = offered.get("sampling")
        needs_tools = bool(question.params.get("tools"))
        needed: JSONObject = {"sampling": {"tools": {}} if needs_tools else {}}
        has_tools = isinstance(declared, dict) and "tools" in declared
        return None if declared is not None and (has_tools or not needs_tools) else needed
    declared = offered.get("elicitation")
    modes = declared if isinstance(declared, dict) else None
    if question.kind is InputKind.URL:
        return None if modes is not None and "url" in modes else {"elicitation": {"url": {}}}
    has_form = modes is not None and ("form" in modes or not modes)
    return None if has_form else {"elicitation": {"form": {}}}


# --- the retry of 2026-07-28 ---------------------------------------------------------------------


async def resume(exchange: Exchange, terms: RelayTerms) -> uuid.UUID | None:
    """Store the answers of a retry and return the call that goes on; None: this is no retry.

    Raises InvalidStateError, NotFoundError; InvalidAnswerError for an answer that does not fit.
    """
    state = exchange.params.get("requestState")
    if not exchange.is_modern or state is None:
        return None
    call_id = _unseal(exchange, state)
    responses = exchange.params.get("inputResponses")
    given = responses if isinstance(responses, dict) else {}
    async with database_patience():
        await threads.run(selectors.call_for, exchange.principal, call_id)
        await tool_calls.follow(call_id, terms)
        await threads.run(_answer_all, exchange.principal, call_id, given)
    return call_id


def _seal(exchange: Exchange, call_id: uuid.UUID) -> str:
    """Return a state that names the call to this principal, for this request, for a while."""
    content = {
        "call": call_id.hex,
        "until": int(clock.now().timestamp() + settings.INPUT_EXPIRY),
        "request": _digest(exchange),
    }
    sealed = key_ring().seal(json.dumps(content).encode(), owner=_owner(exchange))
    return base64.urlsafe_b64encode(sealed).decode()


def _unseal(exchange: Exchange, state: JSONValue) -> uuid.UUID:
    if not isinstance(state, str) or len(state) > STATE_LENGTH:
        raise InvalidStateError
    try:
        sealed = base64.b64decode(state.encode("ascii"), altchars=b"-_", validate=True)
        content = json.loads(key_ring().unseal(sealed, owner=_owner(exchange)))
    except (ValueError, binascii.Error, CredentialUnreadableError) as exc:
        raise InvalidStateError from exc
    if content["until"] < clock.now().timestamp() or content["request"] != _digest(exchange):
        raise InvalidStateError
    return uuid.UUID(hex=content["call"])


def _owner(exchange: Exchange) -> str:
    principal = exchange.principal
    where = f"{principal.tenant_id}:{principal.member_id}:{exchange.endpoint.path}"
    return f"gateway:request_state:{where}"


def _digest(exchange: Exchange) -> str:
    """Name what was asked for: the method, its target and its arguments."""
    kept = {
        key: value
        for key, value in exchange.params.items()
        if key not in {"_meta", "inputResponses", "requestState"}
    }
    whole = json.dumps([exchange.request.method, kept], sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()


# --- in threads ----------------------------------------------------------------------------------


def _open_questions(principal: Principal, call_id: uuid.UUID) -> list[Question]:
    return [_question(row) for row in selectors.open_inputs_of_call(principal, call_id)]


def _question(row: InputRequest) -> Question:
    content = open_json(row, "sealed_params")
    params = content["params"]
    return Question(
        id=row.pk,
        connection_id=row.connection_id,
        key=row.key or str(row.pk),
        kind=InputKind(row.kind),
        method=str(content["method"]),
        params=params if isinstance(params, dict) else {},
        is_consented=row.is_consented,
        seconds=max(1.0, (row.expires_at - clock.now()).total_seconds()),
    )


def _store(principal: Principal, input_id: uuid.UUID, answer: Answer) -> None:
    input_answers.answer(selectors.input_for(principal, input_id), answer)


def _answer_all(principal: Principal, call_id: uuid.UUID, given: Mapping[str, JSONValue]) -> None:
    """Store what answers an open question; anything else is ignored (basic/patterns/mrtr)."""
    for row in selectors.open_inputs_of_call(principal, call_id):
        result = given.get(row.key or str(row.pk))
        if not isinstance(result, dict) or row.is_consented:
            continue
        try:
            input_answers.answer(row, answer_in(InputKind(row.kind), result))
        except (InputClosedError, InputExpiredError):
            continue
