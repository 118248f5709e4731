"""Routes of signing in: callbacks for browsers, and the document that says who the hub is."""

from __future__ import annotations

from django.urls import path

from oauth import views

urlpatterns = [
    path("callback", views.callback, name="oauth-callback"),
    path("mcp/<uuid:subject_key>/callback", views.callback, name="oauth-callback-of"),
    path("authorize/<uuid:request_id>", views.authorize, name="oauth-authorize"),
    path("client.json", views.client_document, name="oauth-client"),
]
