"""Routes of the trace and of the SSE twin, below /api/v1/."""

from __future__ import annotations

from typing import Any

from django.urls import path

from tracing.api import streams, views

events: Any = streams.events
export: Any = streams.export
"""Any: the stubs of Django do not know async views."""

urlpatterns = [
    path("events", events),
    path("traces", views.TracesView.as_view()),
    path("traces/export", export),
    path("traces/<str:trace_id>", views.TraceView.as_view()),
]
