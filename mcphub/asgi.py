"""The ASGI application of a web process: HTTP, WebSockets, start and end; wiring only."""

from __future__ import annotations

import os
from typing import Any

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application

from mcphub import env

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcphub.settings")

with env.refusing_bad_settings():
    django = get_asgi_application()

from django.conf import settings
from django.core.signals import request_finished
from django.urls import include, path

from connectors.api.urls import hot as hot_routes
from gateway.asgi import GatewayApplication
from mcphub import routing
from mcphub.core.request_connections import let_go
from mcphub.lean import LeanApplication
from mcphub.outage import OutageGuard
from mcphub.whole_bodies import WholeBodies

request_finished.connect(let_go)


async def lifespan(scope: Any, receive: Any, send: Any) -> None:
    """Answer start and end of the process; nothing of ours has to wait for either."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


http: Any = LeanApplication(
    WholeBodies(django),
    [path("api/v1/", include(hot_routes))],
    prefixes=("/api/v1/servers/", "/api/v1/calls/", "/api/v1/tool-calls"),
)

application = ProtocolTypeRouter(
    {
        "http": OutageGuard(GatewayApplication(http), is_watching=settings.IS_DATABASE_WATCHED),
        "websocket": routing.websockets,
        "lifespan": lifespan,
    }
)
