"""What clients may ask, by method and era; one module per family."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from connectors.server_spec import Era
from gateway.exchange import Exchange
from gateway.methods import catalog, lifecycle, requests, subscribing, tasks
from mcphub.core.types import JSONObject

Handler = Callable[[Exchange], Awaitable[JSONObject]]
"""Returns the result in the client's own era (see projection.envelopes)."""

LEGACY, MODERN = frozenset({Era.LEGACY}), frozenset({Era.MODERN})
BOTH = LEGACY | MODERN


@dataclass(frozen=True, slots=True)
class Method:
    handle: Handler
    eras: frozenset[Era] = BOTH


METHODS: Mapping[str, Method] = {
    "initialize": Method(lifecycle.initialize, LEGACY),
    "ping": Method(lifecycle.ping, LEGACY),
    "server/discover": Method(lifecycle.discover, MODERN),
    "tools/list": Method(catalog.list_tools),
    "tools/call": Method(requests.call_tool),
    "resources/list": Method(catalog.list_resources),
    "resources/templates/list": Method(catalog.list_templates),
    "resources/read": Method(requests.read_resource),
    "prompts/list": Method(catalog.list_prompts),
    "prompts/get": Method(requests.get_prompt),
    "completion/complete": Method(requests.complete),
    "tasks/get": Method(tasks.get),
    "tasks/cancel": Method(tasks.cancel),
    "tasks/update": Method(tasks.update, MODERN),
    "tasks/result": Method(tasks.result, LEGACY),
    "tasks/list": Method(tasks.listing, LEGACY),
    "resources/subscribe": Method(subscribing.subscribe, LEGACY),
    "resources/unsubscribe": Method(subscribing.unsubscribe, LEGACY),
    "logging/setLevel": Method(subscribing.set_level, LEGACY),
    "subscriptions/listen": Method(subscribing.listen, MODERN),
}
