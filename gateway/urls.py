"""Routes of the gateway."""

from __future__ import annotations

from django.urls import URLPattern, path

from gateway import views

urlpatterns: list[URLPattern] = [
    path("mcp", views.not_available),
    path("mcp/<path:rest>", views.not_available),
    path("mcp/", views.not_available),
]
