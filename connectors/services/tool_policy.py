"""Tool policy: whether this principal may call this tool now. Asked before anything is submitted.

Switched off by its user, changed since it was approved, or beyond a read-only key: each says so.
"""

from __future__ import annotations

from connectors import selectors
from connectors.definitions import DefinitionPolicy
from connectors.models import CatalogTool
from connectors.selectors import ToolView, UnknownToolError
from mcphub.core.errors import ConflictError, NotPermittedError
from tenants.principal import Principal


class ToolDisabledError(NotPermittedError):
    code = "tool_disabled"
    title = "The tool is switched off"


class ToolDefinitionChangedError(ConflictError):
    code = "tool_definition_changed"
    title = "The tool's definition has changed and waits for an approval"


class ToolNotReadOnlyError(NotPermittedError):
    code = "tool_not_read_only"
    title = "This key calls read-only tools only"


def check(principal: Principal, tool: ToolView | None) -> None:
    """Raise the error that forbids a call of `tool`; None: its catalog was never read."""
    if principal.is_read_only and (tool is None or not tool.is_read_only):
        raise ToolNotReadOnlyError(
            "The tool does not say that it is read-only, and this key may call no other."
        )
    if tool is None:
        return
    if not tool.is_enabled:
        raise ToolDisabledError
    if tool.is_blocked:
        raise ToolDefinitionChangedError(
            "Look at the change in /api/v1/tool-changes and approve it there.",
            extra={"serverId": tool.server, "tool": tool.name, "digest": tool.digest},
        )


def check_unlisted(principal: Principal, server: str, name: str) -> None:
    """Raise the error that forbids a call of a tool that its server does not list; queries.

    Where changes are blocked it was never approved; what was switched off stays so.
    """
    connection = selectors.connection_for(principal, server)
    if selectors.definition_policy_of(connection) is DefinitionPolicy.BLOCK:
        raise UnknownToolError(f"Unknown tool, and unapproved ones are blocked: {name[:200]}")
    rows = CatalogTool.objects.of(principal).filter(connection_id=connection.pk, name=name)
    if rows.filter(is_enabled=False).exists():
        raise ToolDisabledError
