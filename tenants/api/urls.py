"""Routes below /api/v1 of this app."""

from __future__ import annotations

from django.urls import path

from tenants.api import views, views_webhooks

urlpatterns = [
    path("tenants/current", views.CurrentTenantView.as_view()),
    path("tenants/current/webhook", views_webhooks.WebhookView.as_view()),
    path("tenants/current/webhook/rotate", views_webhooks.WebhookRotationView.as_view()),
    path("tenants/current/webhook/test", views_webhooks.WebhookTestView.as_view()),
    path("tenants/current/webhook/deliveries", views_webhooks.WebhookDeliveriesView.as_view()),
    path("members", views.MembersView.as_view()),
    path("members/<str:member_id>", views.MemberView.as_view()),
    path("api-keys", views.ApiKeysView.as_view()),
    path("api-keys/<str:api_key_id>", views.ApiKeyView.as_view()),
    path("api-keys/<str:api_key_id>/rotate", views.ApiKeyRotationView.as_view()),
    path("connect-sessions", views.ConnectSessionsView.as_view()),
    path("connect-sessions/<str:session_id>", views.ConnectSessionView.as_view()),
    path("ws-tickets", views.WsTicketsView.as_view()),
    path("usage", views.UsageView.as_view()),
    path("problems", views.ProblemsView.as_view()),
]
