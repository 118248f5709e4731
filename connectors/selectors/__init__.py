"""Reads, and the only tenant gate of connectors: `*_for(principal, …)`, NotFoundError on a miss."""

from connectors.selectors.calls import CallFilter, call_for, calls_for, wire_status
from connectors.selectors.connections import (
    connection_for,
    connections_for,
    connector_for,
    connectors_for,
    free_slug,
    is_virtual,
    rows_for,
    server_of,
    taken_slugs,
)
from connectors.selectors.hot import (
    NotConnectedError,
    connection_for_call,
    connection_view,
    targets,
)
from connectors.selectors.servers import (
    UnknownToolError,
    listing_for,
    server_for,
    servers_for,
    timeline_for,
    tool_for,
    tools_for,
    tools_of_all,
    view_of,
)
from connectors.selectors.spec import secret_texts, spec_for
from connectors.selectors.views import (
    AuthView,
    CallTarget,
    ConnectionView,
    ServerView,
    SourceOutcome,
    ToolsOfAll,
    ToolView,
)

__all__ = [
    "AuthView",
    "CallFilter",
    "CallTarget",
    "ConnectionView",
    "NotConnectedError",
    "ServerView",
    "SourceOutcome",
    "ToolView",
    "ToolsOfAll",
    "UnknownToolError",
    "call_for",
    "calls_for",
    "connection_for",
    "connection_for_call",
    "connection_view",
    "connections_for",
    "connector_for",
    "connectors_for",
    "free_slug",
    "is_virtual",
    "listing_for",
    "rows_for",
    "secret_texts",
    "server_for",
    "server_of",
    "servers_for",
    "spec_for",
    "taken_slugs",
    "targets",
    "timeline_for",
    "tool_for",
    "tools_for",
    "tools_of_all",
    "view_of",
    "wire_status",
]
