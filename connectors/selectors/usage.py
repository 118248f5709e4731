"""What a tenant uses of this package, and what it may: figures of `GET /usage`."""

from __future__ import annotations

from datetime import timedelta

from connectors.models import Connection, CustomServer, ToolCall
from connectors.models.tool_call import OPEN_STATUSES
from connectors.states import State
from mcphub.core.clock import now
from mcphub.core.types import JSONObject
from tenants.models import Tenant
from tenants.principal import Principal


def figures_for(principal: Principal) -> JSONObject:
    """Return counts of the whole tenant; six queries."""
    connections = Connection.objects.of(principal)
    calls = ToolCall.objects.of(principal)
    tenant = Tenant.objects.get(pk=principal.tenant_id)
    return {
        "connections": connections.count(),
        "connected": connections.filter(state=State.CONNECTED).count(),
        "customServers": CustomServer.objects.of(principal).count(),
        "callsInFlight": calls.filter(status__in=OPEN_STATUSES).count(),
        "callsLastDay": calls.filter(created_at__gte=now() - timedelta(days=1)).count(),
        "limits": {
            "connections": tenant.max_connections,
            "customServers": tenant.max_custom_servers,
            "concurrentCalls": tenant.max_concurrent_calls,
            "callsPerMinute": tenant.calls_per_minute,
        },
    }
