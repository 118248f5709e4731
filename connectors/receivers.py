"""What packages below ask of this one: whose a server or a call is, and what a tenant uses."""

from __future__ import annotations

import uuid
from collections.abc import Collection

from django.core.checks import Tags, register

from connectors import selectors
from connectors.selectors.usage import figures_for
from connectors.services import authorizations, oauth_risks
from mcphub.core.errors import NotFoundError
from mcphub.core.offload import in_thread
from oauth import signals
from tenants import connect_sessions, usage
from tenants.principal import Principal
from tracing import topics


def connect() -> None:
    """Answer for topics, usage, connect sessions and ends of sign-ins; called once, at start."""
    register(oauth_risks.check_presets, Tags.database)
    usage.register(figures_for)
    connect_sessions.register_connectors(selectors.preset_slugs)
    signals.authorization_completed.connect(authorizations.on_completed)
    signals.authorization_lost.connect(authorizations.on_lost)
    signals.authorization_changed.connect(authorizations.on_changed)
    topics.register_topic("server", has_server)
    topics.register_topic("call", has_call)
    topics.register_visible_servers(visible_servers)


async def has_server(principal: Principal, slug: str) -> bool:
    try:
        await in_thread(selectors.connection_for, principal, slug)
    except NotFoundError:
        return False
    return True


async def has_call(principal: Principal, call_id: str) -> bool:
    try:
        await in_thread(selectors.call_for, principal, uuid.UUID(call_id))
    except (NotFoundError, ValueError):
        return False
    return True


def visible_servers(principal: Principal) -> Collection[str]:
    return list(selectors.rows_for(principal).values_list("slug", flat=True))
