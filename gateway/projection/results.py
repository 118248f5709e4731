"""What a server answers and says, as one endpoint shows it.

Only names, URIs and task ids of the aggregate endpoint change; every other field, unknown ones and
vendor `_meta` included, stays the object that came. The endpoint of one server changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gateway.projection import uris
from gateway.projection.names import public_prompt_name
from gateway.projection.tasks import public_task_id
from mcphub.core.types import JSONObject, JSONValue

SOURCE_META_KEY = "mcphub/source"
"""`_meta` key by which listed objects of the aggregate say whose they are, and their own id."""
RELATED_TASK_META_KEY = "io.modelcontextprotocol/related-task"
UI_META_KEYS = ("ui/resourceUri", "openai/outputTemplate")
"""Earlier spellings of `_meta.ui.resourceUri` that hosts still look at."""

Change = Callable[[JSONValue], JSONValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """How one server is shown; `is_identity` on the endpoint of that server alone."""

    server: str
    is_identity: bool = False
    tool_names: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Upstream name → stored public name; a tool without one cannot be called and is not shown."""

    # --- lists ------------------------------------------------------------------------------

    def tool(self, item: JSONObject) -> JSONObject | None:
        """Return a listed tool, None when it has no public name."""
        if self.is_identity:
            return item
        name = item.get("name")
        public = self.tool_names.get(name) if isinstance(name, str) else None
        if public is None:
            return None
        return self._sourced(self._with_ui({**item, "name": public}), "name", name)

    def prompt(self, item: JSONObject) -> JSONObject:
        name = item.get("name")
        if self.is_identity or not isinstance(name, str):
            return item
        return self._sourced({**item, "name": public_prompt_name(self.server, name)}, "name", name)

    def resource(self, item: JSONObject) -> JSONObject:
        if self.is_identity:
            return item
        shown = self._with_ui(_changed(item, "uri", self._uri))
        return self._sourced(shown, "uri", item.get("uri"))

    def template(self, item: JSONObject) -> JSONObject:
        if self.is_identity:
            return item
        shown = _changed(item, "uriTemplate", self._template)
        return self._sourced(shown, "uriTemplate", item.get("uriTemplate"))

    # --- results ----------------------------------------------------------------------------

    def result(self, method: str, result: JSONObject) -> JSONObject:
        """Return the result of a request of `method` as it is shown."""
        if self.is_identity:
            return result
        shown = self._with_meta(result)
        shown = _changed(shown, "inputRequests", self._questions)
        if method in _LISTS:
            key, projected = _LISTS[method]
            return _changed(shown, key, lambda items: _each(items, getattr(self, projected)))
        if method == "resources/read":
            return _changed(shown, "contents", lambda each: _each(each, self._resource_contents))
        if method == "prompts/get":
            return _changed(shown, "messages", lambda each: _each(each, self._message))
        if method == "tools/call" or method.startswith("tasks/"):
            return self._task_or_call(shown)
        return shown

    def notification(self, method: str, params: JSONObject) -> JSONObject:
        """Return the params of a notification as they are shown."""
        if self.is_identity:
            return params
        shown = self._with_meta(params)
        if method == "notifications/resources/updated":
            return _changed(shown, "uri", self._uri)
        if method.startswith("notifications/tasks"):
            return self._task_or_call(_changed(shown, "inputRequests", self._questions))
        if method == "notifications/message":
            return self._sourced(shown, "logger", params.get("logger"))
        return shown

    def question(self, method: str, params: JSONObject) -> JSONObject:
        """Return the params of a request that the server makes of the client."""
        if self.is_identity:
            return params
        shown = self._with_meta(params)
        if method == "sampling/createMessage":
            return _changed(shown, "messages", lambda each: _each(each, self._message))
        return shown

    # --- parts ------------------------------------------------------------------------------

    def _task_or_call(self, result: JSONObject) -> JSONObject:
        shown = _changed(result, "content", lambda blocks: _each(blocks, self._block))
        shown = _changed(shown, "taskId", self._task_id)
        shown = _changed(shown, "task", _objects(self.task))
        shown = _changed(shown, "tasks", lambda tasks: _each(tasks, self.task))
        return _changed(shown, "result", _objects(lambda own: self.result("tools/call", own)))

    def task(self, task: JSONObject) -> JSONObject:
        """Return a task's state as it is shown."""
        if self.is_identity:
            return task
        return _changed(task, "taskId", self._task_id)

    def _message(self, message: JSONObject) -> JSONObject:
        """Project the one block or the blocks of a message."""
        return _changed(
            message,
            "content",
            lambda content: (
                self._block(content) if isinstance(content, dict) else _each(content, self._block)
            ),
        )

    def _block(self, block: JSONObject) -> JSONObject:
        kind = block.get("type")
        if kind == "resource_link":
            return self.resource(block)
        if kind == "resource":
            return _changed(block, "resource", _objects(self._resource_contents))
        if kind == "tool_result":
            return _changed(block, "content", lambda blocks: _each(blocks, self._block))
        return block

    def _resource_contents(self, contents: JSONObject) -> JSONObject:
        return self._with_ui(_changed(contents, "uri", self._uri))

    def _questions(self, questions: JSONValue) -> JSONValue:
        if not isinstance(questions, dict):
            return questions
        return {key: self._input_request(asked) for key, asked in questions.items()}

    def _input_request(self, asked: JSONValue) -> JSONValue:
        if not isinstance(asked, dict):
            return asked
        method = asked.get("method")
        if not isinstance(method, str):
            return asked
        return _changed(asked, "params", _objects(lambda params: self.question(method, params)))

    def _with_meta(self, holder: JSONObject) -> JSONObject:
        def related(meta: JSONObject) -> JSONObject:
            return _changed(meta, RELATED_TASK_META_KEY, _objects(self.task))

        return self._with_ui(_changed(holder, "_meta", _objects(related)))

    def _with_ui(self, holder: JSONObject) -> JSONObject:
        def projected(meta: JSONObject) -> JSONObject:
            shown = _changed(
                meta, "ui", _objects(lambda ui: _changed(ui, "resourceUri", self._uri))
            )
            for key in UI_META_KEYS:
                shown = _changed(shown, key, self._uri)
            return shown

        return _changed(holder, "_meta", _objects(projected))

    def _sourced(self, holder: JSONObject, key: str, own: JSONValue) -> JSONObject:
        source: JSONObject = {"server": self.server}
        if isinstance(own, str):
            source[key] = own
        meta = holder.get("_meta")
        kept = meta if isinstance(meta, dict) else {}
        return {**holder, "_meta": {**kept, SOURCE_META_KEY: source}}

    def _uri(self, uri: JSONValue) -> JSONValue:
        return uris.public_uri(self.server, uri) if isinstance(uri, str) else uri

    def _template(self, template: JSONValue) -> JSONValue:
        if not isinstance(template, str):
            return template
        return uris.public_template(self.server, template)

    def _task_id(self, task_id: JSONValue) -> JSONValue:
        return public_task_id(self.server, task_id) if isinstance(task_id, str) else task_id


_LISTS = {
    "tools/list": ("tools", "tool"),
    "prompts/list": ("prompts", "prompt"),
    "resources/list": ("resources", "resource"),
    "resources/templates/list": ("resourceTemplates", "template"),
}


def _changed(holder: JSONObject, key: str, change: Change) -> JSONObject:
    """Return `holder` with one member changed, in its place; the same object if it has none."""
    if key not in holder:
        return holder
    old = holder[key]
    new = change(old)
    return holder if new is old else {**holder, key: new}


def _objects(change: Callable[[JSONObject], JSONObject]) -> Change:
    """Return a change of objects that leaves any other value alone."""
    return lambda value: change(value) if isinstance(value, dict) else value


def _each(items: JSONValue, change: Callable[[JSONObject], JSONObject | None]) -> JSONValue:
    """Return a list with its objects changed, without those that are not shown."""
    if not isinstance(items, list):
        return items
    shown = [change(item) if isinstance(item, dict) else item for item in items]
    return [new for new, old in zip(shown, items, strict=True) if new is not None or old is None]
