"""Tasks of the relay fixture: core tasks of 2025-11-25, the extension of 2026-07-28."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field

from mcphub.core.types import JSONObject
from tests.fakes.relay.content import FORM, TASKS_EXTENSION, TRACE, UNKNOWN, call_result
from tests.fakes.relay.exchange import Exchange, ProtocolError

CREATED = "2026-11-30T10:00:00Z"
RELATED = "io.modelcontextprotocol/related-task"
QUESTION = "who"


@dataclass
class Task:
    """One task; `move` lets a test decide when it goes on."""

    id: str
    arguments: JSONObject
    asks: bool
    status: str = "working"
    answer: JSONObject = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def told(self, *, is_modern: bool) -> JSONObject:
        common: JSONObject = {
            "taskId": self.id,
            "status": self.status,
            "statusMessage": f"it is {self.status}",
            "createdAt": CREATED,
            "lastUpdatedAt": CREATED,
            **UNKNOWN,
        }
        if is_modern:
            return {**common, "ttlMs": 60_000, "pollIntervalMs": 20}
        return {**common, "ttl": 60_000, "pollInterval": 20}

    def move(self, status: str) -> None:
        self.status = status
        self.changed.set()

    def result(self, *, is_modern: bool) -> JSONObject:
        found = call_result({**self.arguments, **({"q": "answered"} if self.answer else {})})
        if is_modern:
            return found
        return {**found, "_meta": {**TRACE, RELATED: {"taskId": self.id}}}


class Tasks:
    """All tasks of one server."""

    def __init__(self) -> None:
        self.all: dict[str, Task] = {}
        self._numbers = itertools.count(1)

    def create(self, exchange: Exchange) -> JSONObject:
        """Return the result that stands for the task."""
        asks = exchange.params.get("name") == "job_asking"
        task = Task(f"job/{next(self._numbers)}", exchange.arguments, asks=asks)
        self.all[task.id] = task
        if exchange.is_modern:
            return {"resultType": "task", **task.told(is_modern=True), "_meta": TRACE}
        return {"task": task.told(is_modern=False), "_meta": TRACE}

    def wanted(self, exchange: Exchange) -> bool:
        """Whether this call is to become a task."""
        if not str(exchange.params.get("name")).startswith("job"):
            return False
        if not exchange.is_modern:
            return "task" in exchange.params
        capabilities = exchange.meta.get("io.modelcontextprotocol/clientCapabilities")
        declared = capabilities.get("extensions") if isinstance(capabilities, dict) else None
        return isinstance(declared, dict) and TASKS_EXTENSION in declared

    def _task(self, exchange: Exchange) -> Task:
        task = self.all.get(str(exchange.params.get("taskId")))
        if task is None:
            raise ProtocolError({"code": -32602, "message": "Unknown task"})
        return task

    async def get(self, exchange: Exchange) -> JSONObject:
        task = self._task(exchange)
        told = task.told(is_modern=exchange.is_modern)
        if not exchange.is_modern:
            return told
        if task.status == "input_required":
            told["inputRequests"] = {QUESTION: {"method": "elicitation/create", "params": FORM}}
        if task.status == "completed":
            told["result"] = task.result(is_modern=True)
        return told

    async def result(self, exchange: Exchange) -> JSONObject:
        """Core: wait for the end, asking on this stream what the task wants to know."""
        task = self._task(exchange)
        while task.status not in {"completed", "cancelled"}:
            if task.status == "input_required":
                question: JSONObject = {**FORM, "_meta": {RELATED: {"taskId": task.id}}}
                answers = await exchange.ask({QUESTION: ("elicitation/create", question)})
                task.answer, task.status = answers, "completed"
                break
            task.changed.clear()
            await task.changed.wait()
        if task.status == "cancelled":
            raise ProtocolError({"code": -32000, "message": "Task cancelled"})
        return task.result(is_modern=False)

    async def update(self, exchange: Exchange) -> JSONObject:
        task = self._task(exchange)
        answers = exchange.params.get("inputResponses")
        task.answer = answers if isinstance(answers, dict) else {}
        task.move("completed")
        return {}

    async def cancel(self, exchange: Exchange) -> JSONObject:
        task = self._task(exchange)
        task.move("cancelled")
        return {} if exchange.is_modern else task.told(is_modern=False)

    async def list(self, exchange: Exchange) -> JSONObject:
        return {"tasks": [task.told(is_modern=False) for task in self.all.values()]}
