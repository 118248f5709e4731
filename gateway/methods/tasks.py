"""Tasks of servers in both forms: the core of 2025-11-25 and the extension of 2026-07-28.

A client meets a server's tasks in its own era's form or not at all (see projection.kinds). Tasks
belong to the member whose call started them; any other is as unknown as one that never was.
"""

from __future__ import annotations

import asyncio

from django.conf import settings
from mcp_types.jsonrpc import INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY

from connectors import selectors
from connectors.api import threads
from connectors.selectors import ConnectionView
from connectors.started_tasks import TASKS_EXTENSION
from gateway import relay
from gateway.exchange import Exchange
from gateway.projection.requests import Addressed, addressed_by_task
from gateway.projection.results import Projection
from gateway.sources import META_KEY, Source, sources_of
from gateway.wire import RpcFault
from mcphub.core.errors import HubError, NotFoundError
from mcphub.core.types import JSONObject, JSONValue

MOST_PAGES = 20
"""Of one server's list of tasks, where several are shown as one."""


async def get(exchange: Exchange) -> JSONObject:
    """tasks/get, tasks/update and tasks/cancel: an answer at once."""
    return await _ask(exchange, "retrieve")


async def update(exchange: Exchange) -> JSONObject:
    return await _ask(exchange, "update")


async def cancel(exchange: Exchange) -> JSONObject:
    return await _ask(exchange, "cancel")


async def result(exchange: Exchange) -> JSONObject:
    """Return the result of a task; its server answers when there is one."""
    return await _ask(exchange, "retrieve", seconds=settings.CALL_TIMEOUT_MAX)


async def listing(exchange: Exchange) -> JSONObject:
    """List the member's tasks: of one server page by page, of several at once."""
    found = await sources_of(exchange.principal, exchange.endpoint)
    able = [source for source in found if source.is_connected and _lists_tasks(source)]
    if not exchange.endpoint.is_aggregate:
        cursor = exchange.params.get("cursor")
        page = await _page(exchange, found[0].connection, cursor)
        return {**page, "tasks": [*await _own(exchange, found[0].connection, page)]}
    of_each = await asyncio.gather(*(_all_of(exchange, source) for source in able))
    tasks: list[JSONValue] = [task for found_there, _ in of_each for task in found_there]
    problems = {source.slug: error for source, (_, error) in zip(able, of_each, strict=True)}
    told: list[JSONValue] = [
        {**source.wire, "error": error} if (error := problems.get(source.slug)) else source.wire
        for source in found
    ]
    return {"tasks": tasks, "_meta": {META_KEY: told}}


async def _ask(exchange: Exchange, verb: str, *, seconds: float | None = None) -> JSONObject:
    _check_declared(exchange)
    unknown = RpcFault(INVALID_PARAMS, f"Failed to {verb} task: Task not found")
    addressed = _addressed(exchange)
    if addressed is None:
        raise unknown
    try:
        found = await selectors.targets.find(exchange.principal, addressed.server)
    except NotFoundError as exc:
        raise unknown from exc
    task_id = str(addressed.params["taskId"])
    known = await threads.run(
        selectors.known_tasks, exchange.principal, found.connection.id, [task_id]
    )
    if not known or found.connection.era != exchange.era:
        raise unknown
    return await relay.run(
        exchange, found.connection, target=task_id, params=addressed.params, seconds=seconds
    )


def _check_declared(exchange: Exchange) -> None:
    """Raise RpcFault for a modern client that has not declared the extension with its request."""
    extensions = exchange.capabilities.get("extensions")
    if exchange.is_modern and not (isinstance(extensions, dict) and TASKS_EXTENSION in extensions):
        needed: JSONObject = {"extensions": {TASKS_EXTENSION: {}}}
        raise RpcFault(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            "Missing required client capability",
            {"requiredCapabilities": needed},
        )


def _addressed(exchange: Exchange) -> Addressed | None:
    """Return whose task is meant; on the endpoint of one server it is always its own."""
    endpoint = exchange.endpoint
    if endpoint.server is not None:
        has_id = isinstance(exchange.params.get("taskId"), str)
        return Addressed(endpoint.server, exchange.params) if has_id else None
    public = addressed_by_task(exchange.params)
    return public if public is not None and endpoint.has_server(public.server) else None


def _lists_tasks(source: Source) -> bool:
    tasks = source.capabilities.get("tasks")
    return isinstance(tasks, dict) and "list" in tasks


async def _all_of(exchange: Exchange, source: Source) -> tuple[list[JSONObject], JSONObject | None]:
    """Return the member's tasks at one server, and what went wrong there."""
    projection = Projection(server=source.slug)
    tasks: list[JSONObject] = []
    cursor: JSONValue = None
    try:
        for _ in range(MOST_PAGES):
            page = await _page(exchange, source.connection, cursor)
            own = await _own(exchange, source.connection, page)
            tasks += [projection.task(task) for task in own]
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str):
                break
    except HubError as exc:
        return tasks, {"code": exc.problem_code, "message": exc.detail}
    return tasks, None


async def _page(exchange: Exchange, connection: ConnectionView, cursor: JSONValue) -> JSONObject:
    """Return a page of a server's list under its own ids. Raises ProtocolError, HubError."""
    params = {key: value for key, value in exchange.params.items() if key != "cursor"}
    if cursor is not None:
        params["cursor"] = cursor
    own = Projection(server=connection.slug, is_identity=True)
    return await relay.run(exchange, connection, target="", params=params, projection=own)


async def _own(
    exchange: Exchange, connection: ConnectionView, page: JSONObject
) -> list[JSONObject]:
    """Return the tasks of a page that calls of this member have started."""
    listed = page.get("tasks")
    tasks = [task for task in listed if isinstance(task, dict)] if isinstance(listed, list) else []
    ids = [task_id for task in tasks if isinstance(task_id := task.get("taskId"), str)]
    known = await threads.run(selectors.known_tasks, exchange.principal, connection.id, ids)
    return [task for task in tasks if task.get("taskId") in known]
