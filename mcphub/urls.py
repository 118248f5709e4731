"""Routes of the whole service; wiring only."""

from __future__ import annotations

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from mcphub import health, metrics
from tenants.views import LoginPage, login_once

api_v1: list[URLPattern | URLResolver] = [
    path("", include(module))
    for module in (
        *("tenants.api.urls", "tracing.api.urls", "connectors.api.urls"),
        *("gateway.api", "gateway.login.api"),
    )
]

docs = SpectacularSwaggerSplitView.as_view(
    template_name="mcphub/docs.html",
    url_name="schema",
    authentication_classes=[],
    permission_classes=[],
)
schema = SpectacularAPIView.as_view(authentication_classes=[], permission_classes=[])

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/", include(api_v1)),
    path("api/v1/schema", schema, name="schema"),
    path("api/docs", docs, name="docs"),
    path("admin/", admin.site.urls),
    path("login", LoginPage.as_view(), name="login"),
    path("login/once/<str:token>", login_once, name="login-once"),
    path("livez", health.livez),
    path("readyz", health.readyz),
    path("metrics", metrics.metrics),
    path("oauth/", include("oauth.urls")),
    path("", include("gateway.login.urls")),
    path("", include("console.urls")),
]

handler400 = "mcphub.api.pages.bad_request"
handler403 = "mcphub.api.pages.permission_denied"
handler404 = "mcphub.api.pages.page_not_found"
handler500 = "mcphub.api.pages.server_error"
