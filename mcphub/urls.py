"""Routes of the whole service; wiring only."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path

from mcphub import health

urlpatterns = [
    path("admin/", admin.site.urls),
    path("livez", health.livez),
    path("readyz", health.readyz),
]
