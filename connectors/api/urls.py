"""Routes below /api/v1 of this app; `hot` is what the lean chain serves as well."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from django.http.response import HttpResponseBase
from django.urls import URLPattern, path

from connectors.api import (
    schema,
    views_calls,
    views_catalog,
    views_compat,
    views_connecting,
    views_connectors,
    views_definitions,
    views_hot,
    views_inputs,
    views_model_calls,
    views_servers,
    views_session,
    views_tools,
)


def waiting(route: str, view: Callable[..., Awaitable[HttpResponseBase]]) -> URLPattern:
    """Return the route of a plain async view."""
    made: URLPattern = path(route, cast("Any", view))
    return made


hot: list[URLPattern] = [
    waiting("servers/<str:server>/tools/<path:tool>/call", views_hot.call_tool),
    waiting("servers/<str:server>/resources/read", views_hot.read_resource),
    waiting("servers/<str:server>/prompts/get", views_hot.get_prompt),
    waiting("servers/<str:server>/complete", views_hot.complete),
    waiting("calls/<str:call_id>", views_hot.call),
    waiting("tool-calls/batch", views_model_calls.batch),
    waiting("tool-calls", views_model_calls.model_call),
]

urlpatterns: list[URLPattern] = [
    *hot,
    path("servers", views_servers.ServersView.as_view()),
    path("servers/<str:server>", views_servers.ServerView.as_view()),
    waiting("servers/<str:server>/connect", views_connecting.connect),
    waiting("servers/<str:server>/diagnose", views_connecting.diagnosis),
    waiting("servers/<str:server>/ping", views_session.ping),
    waiting("servers/<str:server>/logging-level", views_session.logging_level),
    path("servers/<str:server>/disconnect", views_servers.DisconnectView.as_view()),
    waiting("servers/<str:server>/complete-auth", views_connecting.complete_auth),
    path("servers/<str:server>/connections", views_servers.NamedConnectionsView.as_view()),
    path("servers/<str:server>/timeline", views_servers.TimelineView.as_view()),
    waiting("servers/<str:server>/tools", views_catalog.tools),
    path(
        "servers/<str:server>/tools/<path:tool>/approve",
        views_definitions.ApproveToolView.as_view(),
    ),
    path("servers/<str:server>/tools/<path:tool>", views_catalog.ToolView.as_view()),
    waiting("servers/<str:server>/resources", views_catalog.resources),
    waiting("servers/<str:server>/resource-templates", views_catalog.templates),
    waiting("servers/<str:server>/prompts", views_catalog.prompts),
    path("calls", views_calls.CallsView.as_view()),
    path("calls/<str:call_id>/cancel", views_calls.CancelCallView.as_view()),
    path("calls/<str:call_id>/inputs/<str:input_id>", views_inputs.CallInputView.as_view()),
    path("elicitations", views_inputs.ElicitationsView.as_view()),
    path("elicitations/<str:elicitation_id>", views_inputs.ElicitationView.as_view()),
    path("tool-changes", views_definitions.ToolChangesView.as_view()),
    path("tools", views_tools.ToolsView.as_view()),
    path("connectors", views_connectors.ConnectorsView.as_view()),
    path("connectors/<str:connector>", views_connectors.ConnectorView.as_view()),
    path("react-mcp/custom-servers", views_compat.CustomServersStorageView.as_view()),
    path("react-mcp/auth/<str:server_id>", views_compat.AuthStorageView.as_view()),
]

__all__ = ["hot", "schema", "urlpatterns"]
