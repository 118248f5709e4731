"""Task ids on the aggregate endpoint: `server:id`, reversible; a server's id has no colon.

An id does not say whose task it is: that is for the gateway to know, before it asks the server.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PUBLIC = re.compile(r"(?P<server>[a-z][a-z0-9_-]*):(?P<task>.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TaskOrigin:
    server: str
    task_id: str


def public_task_id(server: str, task_id: str) -> str:
    """Return the id under which the aggregate shows a task of `server`."""
    return f"{server}:{task_id}"


def task_origin(public: str) -> TaskOrigin | None:
    """Return whose task this is; None for an id that the hub never showed."""
    found = _PUBLIC.fullmatch(public)
    return TaskOrigin(found["server"], found["task"]) if found else None
