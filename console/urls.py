"""Routes of the console."""

from __future__ import annotations

from django.urls import path

from console import views

urlpatterns = [path("", views.console, name="console")]
