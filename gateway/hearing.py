"""What a server says in the course of a call, told to the client that made it."""

from __future__ import annotations

from functools import partial

from mcp_types import LOG_LEVEL_META_KEY

from connectors.services.tool_calls import RelayTerms
from gateway.exchange import Exchange
from gateway.projection.results import Projection
from mcphub.core.types import JSONObject, JSONValue

PROGRESS = "notifications/progress"
MESSAGE = "notifications/message"
HANDSHAKE_ONLY = frozenset({"notifications/elicitation/complete", "notifications/tasks/status"})
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def terms_of(exchange: Exchange, projection: Projection) -> RelayTerms:
    """Return how much of a call is relayed to the exchange's client.

    A client of the handshake era without a stream can neither be asked nor told anything.
    """
    can_be_asked = exchange.is_modern or exchange.channel.can_stream
    return RelayTerms(
        client_capabilities=exchange.capabilities if can_be_asked else {},
        log_level=_level_of_request(exchange) or "",
        on_notification=partial(hear, exchange, projection),
        on_dropped=partial(miss, exchange),
    )


def hear(exchange: Exchange, projection: Projection, method: str, params: JSONObject) -> None:
    """Tell the client, if this is for it; never waits."""
    if method == PROGRESS:
        token = exchange.progress_token
        if token is not None:
            exchange.offer(method, {**params, "progressToken": token})
        return
    if method == MESSAGE and not is_wanted(params.get("level"), log_level_of(exchange)):
        return
    if method in HANDSHAKE_ONLY and exchange.is_modern:
        return
    exchange.offer(method, projection.notification(method, params))


def miss(exchange: Exchange, count: int) -> None:
    """Tell a client that hears of log messages how much it has missed; never waits."""
    if is_wanted("warning", log_level_of(exchange)):
        exchange.offer(MESSAGE, dropped(count))


def dropped(count: int) -> JSONObject:
    """Return the params of a log message of the hub about notifications that it had to drop."""
    text = f"{count} notifications came too fast and were dropped."
    return {"level": "warning", "logger": "mcphub", "data": {"text": text, "dropped": count}}


def log_level_of(exchange: Exchange) -> str | None:
    """Return the least severe level that this client wants; None: no log messages at all.

    In 2026-07-28 each request says so; before, a server decides until `logging/setLevel`.
    """
    if exchange.session is not None:
        return exchange.session.log_level or LEVELS[0]
    return _level_of_request(exchange)


def _level_of_request(exchange: Exchange) -> str | None:
    """Return the level that a request of 2026-07-28 names."""
    level = exchange.request.meta.get(LOG_LEVEL_META_KEY)
    return level if exchange.is_modern and isinstance(level, str) else None


def is_wanted(level: JSONValue, wish: str | None) -> bool:
    """Whether a message of `level` is at least as severe as wished; unknown words count as so."""
    if wish is None:
        return False
    if wish not in LEVELS or level not in LEVELS:
        return True
    return LEVELS.index(str(level)) >= LEVELS.index(wish)
