"""Tasks that servers start instead of answering a call: how a call's row remembers them (pure)."""

from __future__ import annotations

import hashlib

from mcphub.core.types import JSONObject

TASKS_EXTENSION = "io.modelcontextprotocol/tasks"


def task_id_of(result: JSONObject) -> str | None:
    """Return the id of the task that a result says was started, in either form.

    2025-11-25: `{"task": {"taskId": …}}`; the extension: `{"resultType": "task", "taskId": …}`.
    """
    task = result if result.get("resultType") == "task" else result.get("task")
    found = task.get("taskId") if isinstance(task, dict) else None
    return found if isinstance(found, str) and found else None


def key_of(task_id: str) -> str:
    """Return what is stored of an id, which can have any length."""
    return hashlib.sha256(task_id.encode("utf-8", "surrogatepass")).hexdigest()
