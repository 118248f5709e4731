"""The checker that the service calls: harmless schemas here, all others in killable children."""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import json
import threading
import time
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

import referencing
from jsonschema.protocols import Validator

from connectors.argument_check.problems import problems_of
from connectors.argument_check.process import Child, ChildLostError
from connectors.argument_check.rules import (
    DRAFTS_OF_PLAIN,
    PLAIN_MAX_BYTES,
    PLAIN_MAX_WORK,
    SCHEMA_MAX_BYTES,
    CheckResult,
    Reason,
    dialect,
    parts_of,
    plain_weight,
    survey,
)
from mcphub.core.errors import FieldProblem
from mcphub.core.types import JSONValue

CHILDREN = 2
KEPT_PLANS = 2000
WAITING_MAX = 200
# Wall clock, the safety net above the child's own limits of CPU time.
CHECK_SECONDS = 4.0
COMPILE_SECONDS = 6.0
# How long a schema that cost a child its life is left alone: 2, 4, 8, … seconds.
BAN_SECONDS_MAX = 64.0


@dataclass(slots=True)
class _Plan:
    """How one schema is used."""

    digest: str
    reason: Reason = Reason.NONE
    validator: Validator | None = None
    weight: int = 0
    losses: int = 0
    banned_until: float = 0.0


class ArgumentChecker:
    """Checks arguments; usable from any thread and any event loop.

    Threads, not loop-bound pipes, talk to the children, so no state belongs to a loop. Children are
    started when first needed and end with the parent.
    """

    def __init__(self, *, children: int = CHILDREN) -> None:
        self._threads = ThreadPoolExecutor(children, thread_name_prefix="argument-check")
        self._lock = threading.Lock()
        self._idle: list[Child] = []
        self._plans: OrderedDict[str, _Plan] = OrderedDict()
        self._waiting = 0

    async def check(
        self, schema: JSONValue, arguments: JSONValue, *, digest: str | None = None
    ) -> CheckResult:
        """Check the arguments; never raises for a bad schema and never blocks the loop.

        `digest` may name the schema's content, so that it need not be computed again.
        """
        answer = self._begin(schema, arguments, digest)
        return answer if isinstance(answer, CheckResult) else await asyncio.wrap_future(answer)

    def check_blocking(
        self, schema: JSONValue, arguments: JSONValue, *, digest: str | None = None
    ) -> CheckResult:
        """As `check`, for threads."""
        answer = self._begin(schema, arguments, digest)
        return answer if isinstance(answer, CheckResult) else answer.result()

    def close(self) -> None:
        """End threads and children."""
        self._threads.shutdown(cancel_futures=True)
        with self._lock:
            children, self._idle = self._idle, []
        for child in children:
            child.kill()

    def _begin(
        self, schema: JSONValue, arguments: JSONValue, digest: str | None
    ) -> CheckResult | Future[CheckResult]:
        plan = self._plan(schema, digest)
        if plan.reason:
            return CheckResult(is_checked=False, reason=plan.reason)
        if plan.validator is not None:
            most = PLAIN_MAX_WORK // plan.weight
            if parts_of(arguments, most) <= most:
                return CheckResult(is_checked=True, problems=problems_of(plan.validator, arguments))
        if plan.banned_until > time.monotonic():
            return CheckResult(is_checked=False, reason=Reason.TOO_SLOW)
        with self._lock:
            if self._waiting >= WAITING_MAX:
                return CheckResult(is_checked=False, reason=Reason.BUSY)
            self._waiting += 1
        future = self._threads.submit(self._ask_child, plan, schema, arguments)
        future.add_done_callback(self._count_down)
        return future

    def _count_down(self, _: Future[CheckResult]) -> None:
        with self._lock:
            self._waiting -= 1

    def _plan(self, schema: JSONValue, digest: str | None) -> _Plan:
        text = b""
        try:
            if digest is None or digest not in self._plans:
                text = _json(schema)
        except RecursionError:
            return _Plan("", reason=Reason.TOO_DEEP)
        digest = digest or hashlib.sha256(text).hexdigest()
        with self._lock:
            plan = self._plans.get(digest)
            if plan is not None:
                self._plans.move_to_end(digest)
                return plan
        plan = _make_plan(digest, schema, len(text))
        with self._lock:
            self._plans[digest] = plan
            if len(self._plans) > KEPT_PLANS:
                self._plans.popitem(last=False)
        return plan

    def _ask_child(self, plan: _Plan, schema: JSONValue, arguments: JSONValue) -> CheckResult:
        try:
            text = _json(arguments)
        except RecursionError:
            return CheckResult(is_checked=False, reason=Reason.TOO_DEEP)
        if plan.banned_until > time.monotonic():  # since it was queued
            return CheckResult(is_checked=False, reason=Reason.TOO_SLOW)
        try:
            child = self._take()
            answer = _ask(child, plan.digest, schema, text)
        except OSError:  # the system has no process or pipe left
            return CheckResult(is_checked=False, reason=Reason.BUSY)
        except ChildLostError:
            plan.losses += 1
            plan.banned_until = time.monotonic() + min(2.0**plan.losses, BAN_SECONDS_MAX)
            return CheckResult(is_checked=False, reason=Reason.TOO_SLOW)
        plan.losses = 0
        with self._lock:
            self._idle.append(child)
        return answer

    def _take(self) -> Child:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return Child()


def _ask(child: Child, digest: str, schema: JSONValue, arguments: bytes) -> CheckResult:
    name = _json(digest)
    if digest in child.known:
        answer = json.loads(
            child.ask(b'{"digest":%b,"arguments":%b}\n' % (name, arguments), CHECK_SECONDS)
        )
        if "unknown" not in answer:
            return _result(answer)
        child.known.clear()
    question = b'{"digest":%b,"arguments":%b,"schema":%b}\n' % (name, arguments, _json(schema))
    answer = json.loads(child.ask(question, COMPILE_SECONDS))
    child.known.add(digest)
    return _result(answer)


def _result(answer: dict[str, JSONValue]) -> CheckResult:
    if "reason" in answer:
        return CheckResult(is_checked=False, reason=Reason(str(answer["reason"])))
    found = answer["problems"]
    assert isinstance(found, list)
    return CheckResult(is_checked=True, problems=[_problem(item) for item in found])


def _problem(item: JSONValue) -> FieldProblem:
    assert isinstance(item, dict)
    return FieldProblem(
        path=str(item["path"]), message=str(item["message"]), code=str(item["code"])
    )


def _make_plan(digest: str, schema: JSONValue, size: int) -> _Plan:
    if size > SCHEMA_MAX_BYTES:
        return _Plan(digest, reason=Reason.TOO_LARGE)
    if reason := survey(schema):
        return _Plan(digest, reason=reason)
    kind = dialect(schema)
    if kind is None:
        return _Plan(digest, reason=Reason.DIALECT)
    weight = plain_weight(schema) if kind in DRAFTS_OF_PLAIN and size <= PLAIN_MAX_BYTES else 0
    if weight == 0:
        return _Plan(digest)
    validator = kind(schema, registry=referencing.Registry())  # type: ignore[arg-type]  # any JSON that plain_weight knows
    return _Plan(digest, validator=validator, weight=weight)


def _json(value: JSONValue) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


@lru_cache(maxsize=1)
def shared_checker() -> ArgumentChecker:
    """Return the process's checker; its children are started when first needed."""
    checker = ArgumentChecker()
    atexit.register(checker.close)
    return checker
