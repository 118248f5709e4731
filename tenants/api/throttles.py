"""Rates of the endpoints that make credentials, per tenant."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from tenants import rates
from tenants.api.permissions import principal_in

MEMBERS = rates.Rate(name="members", limit=300)
API_KEYS = rates.Rate(name="api_keys", limit=120)
CONNECT_SESSIONS = rates.Rate(name="connect_sessions", limit=3000)
WEBHOOKS = rates.Rate(name="webhooks", limit=60)
TICKETS = rates.Rate(name="ws_tickets", limit=3000)


def tenant_rate(rate: rates.Rate) -> type[BaseThrottle]:
    """Return the throttle class that counts the tenant's POSTs; it raises with the wait itself."""

    class TenantRate(BaseThrottle):
        def allow_request(self, request: Request, view: APIView) -> bool:
            if request.method == "POST":
                rates.take(rate, principal_in(request).tenant_id.hex)
            return True

    return TenantRate
