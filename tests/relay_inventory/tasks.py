"""Tasks: the core form of 2025-11-25 and the extension of 2026-07-28, by what a client can do."""

from __future__ import annotations

from mcphub.core.types import JSONObject, JSONValue
from tests.fakes.relay.tasks import QUESTION
from tests.mcp_client.base import Filter
from tests.mcp_client.legacy import LegacyClient
from tests.relay_inventory.probe import ANSWERS, LEGACY, Measure, NotSeenError, Probe
from tests.relay_inventory.route import WAIT_SECONDS, Route

GROUP = "Tasks"
RELATED = "io.modelcontextprotocol/related-task"
IN_ERAS = {"ttlMs": "ttl", "pollIntervalMs": "pollInterval"}
"""Fields that changed their names."""


async def start(route: Route, name: str = "job") -> tuple[JSONObject, str]:
    """Start a task; returns it as shown, and the server's own id of it."""
    params: JSONObject = {"name": route.tools[name], "arguments": {"q": "t"}}
    if isinstance(route.client, LegacyClient):
        params["task"] = {"ttl": 60_000}
    before = set(route.upstream.methods.tasks.all)
    found = (await route.client.request("tools/call", params)).found
    task = found.get("task", found)
    assert isinstance(task, dict)
    if "taskId" not in task:
        raise NotSeenError
    made = set(route.upstream.methods.tasks.all) - before
    return task, made.pop()


def neutral(route: Route, task: JSONObject) -> JSONValue:
    shown = {IN_ERAS.get(name, name): value for name, value in task.items()}
    for own in ("taskId", "resultType", "_meta", "cacheScope", "result", "inputRequests"):
        shown.pop(own, None)
    return route.own(shown)


async def state(route: Route, task: JSONObject) -> JSONObject:
    return (await route.client.request("tasks/get", {"taskId": task["taskId"]})).found


async def created(route: Route) -> JSONValue:
    task, own_id = await start(route)
    shown = await state(route, task)
    route.upstream.move_task(own_id, "completed")
    return {"created": neutral(route, task), "polled": neutral(route, shown)}


async def result(route: Route) -> JSONValue:
    task, own_id = await start(route)
    route.upstream.move_task(own_id, "completed")
    return {"result": await final(route, task)}


async def final(route: Route, task: JSONObject) -> JSONValue:
    if isinstance(route.client, LegacyClient):
        reply = await route.client.request("tasks/result", {"taskId": task["taskId"]})
        found = route.cleaned(reply.found)
    else:
        inlined = (await state(route, task))["result"]
        assert isinstance(inlined, dict)
        found = route.cleaned(inlined)
    meta = found.get("_meta")
    if isinstance(meta, dict):
        related = meta.pop(RELATED, {"taskId": task["taskId"]})
        assert related == {"taskId": task["taskId"]}, related
    return found


async def cancelled(route: Route) -> JSONValue:
    task, own_id = await start(route)
    (await route.client.request("tasks/cancel", {"taskId": task["taskId"]})).expect()
    upstream = route.upstream.methods.tasks.all[own_id]
    return {"server": upstream.status, "client": (await state(route, task))["status"]}


async def listed(route: Route) -> JSONValue:
    task, _ = await start(route)
    entries = (await route.client.request("tasks/list")).found["tasks"]
    assert isinstance(entries, list)
    ids = [entry["taskId"] for entry in entries if isinstance(entry, dict)]
    return {"isListed": task["taskId"] in ids}


async def told(route: Route) -> JSONValue:
    """A change of the task reaches who started it, by the id that it was shown."""
    task, own_id = await start(route)
    task_id = str(task["taskId"])
    await route.client.listen(Filter(lists=False, task_ids=(task_id,)))
    upstream = route.upstream.methods.tasks.all[own_id]
    is_modern = route.upstream.is_modern
    method = "notifications/tasks" if is_modern else "notifications/tasks/status"
    shown = (
        "notifications/tasks/status"
        if isinstance(route.client, LegacyClient)
        else "notifications/tasks"
    )
    start_at = len(route.client.notices.all)
    if is_modern and not await route.until(lambda: route.upstream.is_watched(own_id)):
        return None
    upstream.status = "cancelled"
    route.upstream.emit(method, upstream.told(is_modern=is_modern))
    found = await route.client.notices.first(shown, WAIT_SECONDS, start_at)
    if found is None:
        return None
    return {"task": neutral(route, found), "isItsOwn": found.get("taskId") == task_id}


async def asked(route: Route) -> JSONValue:
    """A task asks, the client answers, the task ends with the answer."""
    task, own_id = await start(route, "job_asking")
    route.upstream.move_task(own_id, "input_required")
    await route.until(lambda: route.upstream.methods.tasks.all[own_id].status == "input_required")
    task_id: JSONObject = {"taskId": task["taskId"]}
    if isinstance(route.client, LegacyClient):
        await route.client.request("tasks/result", task_id)
    else:
        inputs = (await state(route, task))["inputRequests"]
        assert isinstance(inputs, dict)
        answers: JSONObject = dict.fromkeys(inputs, ANSWERS["elicitation/create"])
        params: JSONObject = {**task_id, "inputResponses": answers}
        (await route.client.request("tasks/update", params)).expect()
    answer = route.upstream.methods.tasks.all[own_id].answer.get(QUESTION)
    return {"answer": answer, "result": await final(route, task)}


async def unknown(route: Route) -> JSONValue:
    reply = await route.client.request("tasks/get", {"taskId": "nobody's"})
    return {"code": (reply.error or {}).get("code")}


def row(name: str, measure: Measure, does: str, **more: object) -> Probe:
    return Probe(name=name, group=GROUP, measure=measure, does=does, **more)  # type: ignore[arg-type]  # the row's own fields


PROBES = (
    row("create, tasks/get", created, "A task as the client's era has it, under an id of the hub."),
    row("result", result, "`tasks/result`, or inlined in `tasks/get`."),
    row("tasks/cancel", cancelled, "Reaches the server."),
    row("tasks/list", listed, "The tasks of this client alone.", clients=LEGACY, servers=LEGACY),
    row("status notifications", told, "To who started the task, or listens to it."),
    row("input for a task", asked, "Asked on `tasks/result`, or answered by `tasks/update`."),
    row("unknown task", unknown, "-32602, as the specification has it."),
)
