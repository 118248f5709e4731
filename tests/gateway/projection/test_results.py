"""Results, notifications and questions of a server as the aggregate shows them."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.projection.results import Projection
from mcphub.core.types import JSONObject, JSONValue

DOCS = Projection(server="docs", tool_names={"search": "docs__search"})
ALONE = Projection(server="docs", is_identity=True)
METHODS = (
    "tools/list",
    "tools/call",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "completion/complete",
    "tasks/get",
    "tasks/result",
    "tasks/list",
)
NOTIFICATIONS = (
    "notifications/message",
    "notifications/progress",
    "notifications/resources/updated",
    "notifications/tasks",
    "notifications/tasks/status",
)
KEYS = st.sampled_from(
    ("content", "contents", "resource", "task", "_meta", "ui", "type", "uri", "messages", "x")
)
json: st.SearchStrategy[JSONValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(KEYS, json, max_size=5)


@given(st.sampled_from(METHODS), objects)
def test_the_endpoint_of_one_server_changes_nothing(method: str, result: JSONObject) -> None:
    assert ALONE.result(method, result) is result


@given(st.sampled_from(METHODS), st.sampled_from(NOTIFICATIONS), objects)
def test_odd_shapes_pass_and_what_came_is_never_changed_in_place(
    method: str, notification: str, message: JSONObject
) -> None:
    before = copy.deepcopy(message)
    DOCS.result(method, message)
    DOCS.notification(notification, message)
    DOCS.question("sampling/createMessage", message)
    assert message == before


@pytest.mark.parametrize("method", ["tools/call", "tasks/result"])
def test_blocks_of_a_tool_result_name_public_uris_and_keep_all_else(method: str) -> None:
    structured: JSONObject = {"uri": "file:///untouched"}
    result: JSONObject = {
        "vendor": {"uri": "file:///untouched"},
        "content": [
            {"type": "text", "text": "file:///untouched", "x-vendor": 1},
            {"type": "resource_link", "uri": "file:///a", "name": "a", "_meta": {"v": 1}},
            {"type": "resource", "resource": {"uri": "ui://card", "text": "…", "x": 2}},
            {"type": "from-the-future", "uri": "file:///untouched"},
        ],
        "structuredContent": structured,
        "isError": True,
    }
    shown = DOCS.result(method, result)
    assert shown == {
        "vendor": {"uri": "file:///untouched"},
        "content": [
            {"type": "text", "text": "file:///untouched", "x-vendor": 1},
            {
                "type": "resource_link",
                "uri": "mcphub://docs/file:///a",
                "name": "a",
                "_meta": {"v": 1, "mcphub/source": {"server": "docs", "uri": "file:///a"}},
            },
            {"type": "resource", "resource": {"uri": "ui://docs/card", "text": "…", "x": 2}},
            {"type": "from-the-future", "uri": "file:///untouched"},
        ],
        "structuredContent": structured,
        "isError": True,
    }
    assert list(shown) == list(result)
    assert shown["structuredContent"] is structured


def test_a_listed_tool_has_its_public_name_its_user_interface_and_its_own_fields() -> None:
    listed: JSONObject = {
        "tools": [
            {
                "name": "search",
                "execution": {"taskSupport": "optional"},
                "icons": [{"src": "https://docs.example/icon.png"}],
                "_meta": {"ui": {"resourceUri": "ui://card", "visibility": ["model"]}, "v": 1},
            },
            {"name": "not-stored"},
        ],
        "nextCursor": "c",
    }
    assert DOCS.result("tools/list", listed) == {
        "tools": [
            {
                "name": "docs__search",
                "execution": {"taskSupport": "optional"},
                "icons": [{"src": "https://docs.example/icon.png"}],
                "_meta": {
                    "ui": {"resourceUri": "ui://docs/card", "visibility": ["model"]},
                    "v": 1,
                    "mcphub/source": {"server": "docs", "name": "search"},
                },
            }
        ],
        "nextCursor": "c",
    }


def test_earlier_spellings_of_a_user_interface_are_projected_as_well() -> None:
    tool: JSONObject = {
        "name": "search",
        "_meta": {"ui/resourceUri": "ui://a", "openai/outputTemplate": "ui://b"},
    }
    shown = DOCS.tool(tool)
    assert shown is not None
    assert shown["_meta"] == {
        "ui/resourceUri": "ui://docs/a",
        "openai/outputTemplate": "ui://docs/b",
        "mcphub/source": {"server": "docs", "name": "search"},
    }


def test_resources_templates_and_prompts_are_listed_with_their_origin() -> None:
    assert DOCS.result("resources/list", {"resources": [{"uri": "file:///a", "size": 3}]}) == {
        "resources": [
            {
                "uri": "mcphub://docs/file:///a",
                "size": 3,
                "_meta": {"mcphub/source": {"server": "docs", "uri": "file:///a"}},
            }
        ]
    }
    templates: JSONObject = {"resourceTemplates": [{"uriTemplate": "file:///{+path}"}]}
    assert DOCS.result("resources/templates/list", templates) == {
        "resourceTemplates": [
            {
                "uriTemplate": "mcphub://docs/file:///{+path}",
                "_meta": {"mcphub/source": {"server": "docs", "uriTemplate": "file:///{+path}"}},
            }
        ]
    }
    assert DOCS.result("prompts/list", {"prompts": [{"name": "sum", "arguments": []}]}) == {
        "prompts": [
            {
                "name": "docs__sum",
                "arguments": [],
                "_meta": {"mcphub/source": {"server": "docs", "name": "sum"}},
            }
        ]
    }


def test_contents_of_a_resource_and_messages_of_a_prompt_are_projected() -> None:
    read: JSONObject = {"contents": [{"uri": "file:///a", "blob": "AA=="}]}
    assert DOCS.result("resources/read", read) == {
        "contents": [{"uri": "mcphub://docs/file:///a", "blob": "AA=="}]
    }
    prompt: JSONObject = {
        "messages": [
            {
                "role": "user",
                "content": {"type": "resource", "resource": {"uri": "x:1", "text": ""}},
            }
        ]
    }
    assert DOCS.result("prompts/get", prompt) == {
        "messages": [
            {
                "role": "user",
                "content": {
                    "type": "resource",
                    "resource": {"uri": "mcphub://docs/x:1", "text": ""},
                },
            }
        ]
    }


def test_task_ids_are_projected_wherever_they_are() -> None:
    created: JSONObject = {"task": {"taskId": "1", "status": "working", "ttl": 5}}
    assert DOCS.result("tools/call", created) == {
        "task": {"taskId": "docs:1", "status": "working", "ttl": 5}
    }
    modern: JSONObject = {"resultType": "task", "taskId": "1", "status": "working"}
    assert DOCS.result("tools/call", modern)["taskId"] == "docs:1"
    assert DOCS.result("tasks/list", {"tasks": [{"taskId": "1"}]}) == {
        "tasks": [{"taskId": "docs:1"}]
    }
    related: JSONObject = {"_meta": {"io.modelcontextprotocol/related-task": {"taskId": "1"}}}
    assert DOCS.question("elicitation/create", related) == {
        "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "docs:1"}}
    }


def test_a_finished_task_of_the_extension_carries_a_projected_result() -> None:
    finished: JSONObject = {
        "taskId": "1",
        "status": "completed",
        "result": {"content": [{"type": "resource", "resource": {"uri": "x:1"}}]},
    }
    expected = {
        "taskId": "docs:1",
        "status": "completed",
        "result": {"content": [{"type": "resource", "resource": {"uri": "mcphub://docs/x:1"}}]},
    }
    assert DOCS.result("tasks/get", finished) == expected
    assert DOCS.notification("notifications/tasks", finished) == expected


def test_notifications_name_public_uris_and_log_messages_their_source() -> None:
    assert DOCS.notification("notifications/resources/updated", {"uri": "x:1", "v": 2}) == {
        "uri": "mcphub://docs/x:1",
        "v": 2,
    }
    logged: JSONObject = {"level": "info", "logger": "db", "data": {"uri": "x:1"}}
    assert DOCS.notification("notifications/message", logged) == {
        **logged,
        "_meta": {"mcphub/source": {"server": "docs", "logger": "db"}},
    }


def test_messages_for_sampling_name_public_uris_also_inside_tool_results() -> None:
    link: JSONObject = {"type": "resource", "resource": {"uri": "x:1"}}
    asked: JSONObject = {
        "messages": [
            {
                "role": "user",
                "content": [{"type": "tool_result", "toolUseId": "1", "content": [link]}],
            }
        ],
        "maxTokens": 5,
    }
    projected: JSONObject = {"type": "resource", "resource": {"uri": "mcphub://docs/x:1"}}
    expected: JSONObject = {
        "messages": [
            {
                "role": "user",
                "content": [{"type": "tool_result", "toolUseId": "1", "content": [projected]}],
            }
        ],
        "maxTokens": 5,
    }
    assert DOCS.question("sampling/createMessage", asked) == expected
    required: JSONObject = {
        "resultType": "input_required",
        "inputRequests": {"q": {"method": "sampling/createMessage", "params": asked}},
    }
    assert DOCS.result("tools/call", required) == {
        "resultType": "input_required",
        "inputRequests": {"q": {"method": "sampling/createMessage", "params": expected}},
    }
