"""Tasks through the gateway: both forms, ids of the aggregate, and nobody else's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from mcphub.core.types import JSONObject, JSONValue
from tests.connectors.session_stack import add_server
from tests.fakes.raw_modern import RawModern
from tests.fakes.raw_server import RawServer, Request, Wire, error, result
from tests.gateway.hub import Hub, Legacy, Modern
from tests.world import World

EXTENSION = "io.modelcontextprotocol/tasks"
RELATED = "io.modelcontextprotocol/related-task"
DECLARED: dict[str, Any] = {"extensions": {EXTENSION: {}}}
JOB: JSONObject = {
    "name": "job",
    "inputSchema": {"type": "object"},
    "execution": {"taskSupport": "optional"},
}
LINK: JSONObject = {"type": "resource_link", "uri": "file:///done", "name": "done"}
TIMES: JSONObject = {"createdAt": "2026-11-30T00:00:00Z", "lastUpdatedAt": "2026-11-30T00:00:00Z"}


@dataclass
class Core(RawServer):
    """Tasks of 2025-11-25; it cannot tell its clients apart."""

    tools = [JOB]
    capabilities = {
        "tools": {},
        "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
    }
    tasks: dict[str, JSONObject] = field(default_factory=dict)

    async def on_call(self, request: Request, wire: Wire) -> None:
        if "task" not in request.params:
            await wire.answer(result(request.id, {"content": []}))
            return
        task_id = f"t:{len(self.tasks)}"
        wished = request.params["task"]
        assert isinstance(wished, dict)
        task: JSONObject = {"taskId": task_id, "status": "working", "ttl": wished.get("ttl")}
        self.tasks[task_id] = {**task, **TIMES}
        await wire.answer(result(request.id, {"task": self.tasks[task_id], "x-odd": [1]}))

    async def on_message(self, request: Request, wire: Wire) -> None:
        if not request.rpc_method.startswith("tasks/"):
            await super().on_message(request, wire)
            return
        task = self.tasks.get(str(request.params.get("taskId")))
        if request.rpc_method == "tasks/list":
            listed: list[JSONValue] = [*self.tasks.values()]
            await wire.answer(result(request.id, {"tasks": listed}))
        elif task is None:
            await wire.answer(error(request.id, -32602, "its own words"))
        else:
            await wire.answer(result(request.id, self.answer(request.rpc_method, task)))

    def answer(self, method: str, task: JSONObject) -> JSONObject:
        if method == "tasks/cancel":
            task["status"] = "cancelled"
        if method == "tasks/result":
            return {"content": [LINK], "_meta": {RELATED: {"taskId": task["taskId"]}}}
        return task


@dataclass
class Extension(RawModern):
    """The extension: its tool always starts a task for clients that declare it."""

    tools = [JOB]
    capabilities = {"tools": {}, "extensions": {EXTENSION: {}}}
    updates: list[JSONValue] = field(default_factory=list)

    async def on_call(self, request: Request, wire: Wire) -> None:
        meta = request.params["_meta"]
        assert isinstance(meta, dict)
        declared = meta["io.modelcontextprotocol/clientCapabilities"]
        assert isinstance(declared, dict)
        if EXTENSION not in (declared.get("extensions") or {}):  # type: ignore[operator]  # JSON
            await wire.answer(result(request.id, {"content": [], "resultType": "complete"}))
            return
        task: JSONObject = {"taskId": "e1", "status": "working", "ttlMs": 60000, **TIMES}
        await wire.answer(result(request.id, {"resultType": "task", **task}))

    async def on_message(self, request: Request, wire: Wire) -> None:
        if not request.rpc_method.startswith("tasks/"):
            await super().on_message(request, wire)
            return
        assert request.headers["mcp-name"] == "e1"
        answer: JSONObject = {"resultType": "complete"}
        if request.rpc_method == "tasks/update":
            self.updates.append(request.params["inputResponses"])
        if request.rpc_method == "tasks/get":
            done: JSONObject = {"status": "completed", "result": {"content": [LINK]}}
            answer |= {"taskId": "e1", "ttlMs": 60000, **TIMES, **done}
        await wire.answer(result(request.id, answer))


def legacy(hub: Hub, path: str = "/mcp", **fields: Any) -> Legacy:
    return Legacy(client=hub.client(**fields), path=path).open()


def code_of(found: dict[str, Any]) -> int:
    code: int = found["error"]["code"]
    return code


def test_a_task_of_the_core_goes_its_whole_way_under_its_own_id(hub: Hub) -> None:
    hub.add_raw("raw", Core())
    client = legacy(hub, "/mcp/s/raw")
    assert client.opened["capabilities"]["tasks"] == Core.capabilities["tasks"]
    created = client.result("tools/call", {"name": "job", "task": {"ttl": 7000}})
    assert created["x-odd"] == [1]
    assert created["task"] == {"taskId": "t:0", "status": "working", "ttl": 7000, **TIMES}
    other = legacy(hub, "/mcp/s/raw")  # the client that began it has gone
    assert other.result("tasks/get", {"taskId": "t:0"})["status"] == "working"
    done = other.result("tasks/result", {"taskId": "t:0"})
    assert done == {"content": [LINK], "_meta": {RELATED: {"taskId": "t:0"}}}
    assert [task["taskId"] for task in other.result("tasks/list")["tasks"]] == ["t:0"]
    assert other.result("tasks/cancel", {"taskId": "t:0"})["status"] == "cancelled"


def test_on_the_aggregate_tasks_of_two_servers_with_one_id_are_two(hub: Hub) -> None:
    hub.add_raw("one", Core())
    hub.add_raw("two", Core())
    client = legacy(hub)
    for name in ("one__job", "two__job"):
        created = client.result("tools/call", {"name": name, "task": {}})
        assert created["task"]["taskId"] == f"{name[:3]}:t:0"
    listed = client.result("tasks/list")
    assert {task["taskId"] for task in listed["tasks"]} == {"one:t:0", "two:t:0"}
    client.result("tasks/cancel", {"taskId": "two:t:0"})
    assert client.result("tasks/get", {"taskId": "one:t:0"})["status"] == "working"
    done = client.result("tasks/result", {"taskId": "one:t:0"})
    assert done["content"][0]["uri"] == "mcphub://one/file:///done"
    assert done["_meta"] == {RELATED: {"taskId": "one:t:0"}}


@pytest.mark.parametrize("path", ["/mcp", "/mcp/s/raw"])
def test_a_task_of_somebody_else_is_unknown_even_where_the_server_would_tell(
    hub: Hub, world: World, path: str
) -> None:
    server = Core()
    hub.add_raw("raw", server)
    row = add_server(world.bob.principal, server.url, name="raw")
    hub.stack.connect(world.bob.principal, row)
    tool, task_id = ("raw__job", "raw:t:0") if path == "/mcp" else ("job", "t:0")
    legacy(hub, path).result("tools/call", {"name": tool, "task": {}})
    asked = len(server.requests)
    bobs = legacy(hub, path, person=world.bob)
    for method in ("tasks/get", "tasks/result", "tasks/cancel"):
        assert code_of(bobs.ask(method, {"taskId": task_id})) == -32602
    assert not [each for each in server.requests[asked:] if each.rpc_method == "tasks/get"]
    assert bobs.result("tasks/list")["tasks"] == []
    assert server.tasks["t:0"]["status"] == "working"


def test_a_task_of_the_extension_goes_its_whole_way(hub: Hub) -> None:
    server = Extension()
    hub.add_raw("raw", server)
    client = Modern(client=hub.client(), capabilities=DECLARED)
    assert client.result("server/discover")["capabilities"]["extensions"] == {EXTENSION: {}}
    created = client.result("tools/call", {"name": "raw__job"})
    assert (created["resultType"], created["taskId"]) == ("task", "raw:e1")
    assert created["ttlMs"] == 60000
    got = client.result("tasks/get", {"taskId": "raw:e1"})
    assert (got["taskId"], got["status"], got["ttlMs"]) == ("raw:e1", "completed", 60000)
    assert got["result"]["content"][0]["uri"] == "mcphub://raw/file:///done"
    given = {"q": {"action": "accept", "content": {"a": 1}}}
    updated = client.result("tasks/update", {"taskId": "raw:e1", "inputResponses": given})
    assert updated == {"resultType": "complete"}
    assert server.updates == [given]
    assert client.result("tasks/cancel", {"taskId": "raw:e1"}) == {"resultType": "complete"}


def test_a_client_without_the_extension_gets_no_task_and_may_ask_for_none(hub: Hub) -> None:
    hub.add_raw("raw", Extension())
    plain = Modern(client=hub.client())
    assert plain.result("tools/call", {"name": "raw__job"})["resultType"] == "complete"
    found = plain.ask("tasks/get", {"taskId": "raw:e1"})
    assert code_of(found) == -32021
    assert found["error"]["data"] == {"requiredCapabilities": DECLARED}


@pytest.mark.parametrize("task_id", ["raw:e2", "e1", "", "other:e1"])
def test_a_task_that_never_was_is_unknown(hub: Hub, task_id: str) -> None:
    hub.add_raw("raw", Extension())
    client = Modern(client=hub.client(), capabilities=DECLARED)
    client.result("tools/call", {"name": "raw__job"})
    assert code_of(client.ask("tasks/get", {"taskId": task_id})) == -32602


def test_a_wish_for_a_task_is_dropped_where_the_server_knows_none(hub: Hub) -> None:
    server = Extension()
    hub.add_raw("raw", server)
    called = legacy(hub).result("tools/call", {"name": "raw__job", "task": {"ttl": 1}})
    assert called == {"content": []}
    sent = next(each for each in server.requests if each.rpc_method == "tools/call")
    assert "task" not in sent.params
