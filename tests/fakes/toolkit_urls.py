"""Addresses of tests.fakes.toolkit_server."""

from __future__ import annotations

from django.urls import include, path

urlpatterns = [path("", include("oauth2_provider.urls", namespace="oauth2_provider"))]
