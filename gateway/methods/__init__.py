"""What clients may ask, by method and era; one module per family."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from connectors.server_spec import Era
from gateway.exchange import Exchange
from gateway.methods import lifecycle
from mcphub.core.types import JSONObject

Handler = Callable[[Exchange], Awaitable[JSONObject]]
"""Returns the result in the client's own era (see `eras.result_for`)."""

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
}
