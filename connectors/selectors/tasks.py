"""Whose task it is: a member knows the tasks that their own calls have started, and no other.

The server may not tell members apart, when they share its credential or it wants none.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection

from connectors.models import ToolCall
from connectors.started_tasks import key_of
from tenants.principal import Principal


def known_tasks(
    principal: Principal, connection_id: uuid.UUID, task_ids: Collection[str]
) -> set[str]:
    """Return those of `task_ids` that calls of this connection have started; one query."""
    by_key = {key_of(task_id): task_id for task_id in task_ids}
    rows = ToolCall.objects.of(principal).filter(
        member_id=principal.member_id, connection_id=connection_id, task_key__in=by_key
    )
    return {by_key[key] for key in rows.values_list("task_key", flat=True) if key is not None}
