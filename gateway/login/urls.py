"""Routes of the authorization server; all answer 404 while the role is off."""

from __future__ import annotations

from django.urls import URLPattern, path

from gateway.login import views
from gateway.login.consent import AuthorizeView

urlpatterns: list[URLPattern] = [
    path(".well-known/oauth-authorization-server", views.metadata),
    path("oauth/authorize", AuthorizeView.as_view(), name="client-login-authorize"),
    path("oauth/token", views.token, name="client-login-token"),
    path("oauth/register", views.register, name="client-login-register"),
    path("oauth/revoke", views.revoke, name="client-login-revoke"),
]
