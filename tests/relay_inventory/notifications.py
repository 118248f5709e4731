"""Notifications of servers and of clients, each to exactly whom it concerns."""

from __future__ import annotations

import asyncio

from mcphub.core.types import JSONObject, JSONValue
from tests.fakes.relay import content
from tests.fakes.relay.methods import log_line
from tests.mcp_client.base import Filter, Reply
from tests.mcp_client.legacy import LegacyClient
from tests.relay_inventory.probe import LEGACY, Measure, Probe
from tests.relay_inventory.route import WAIT_SECONDS, Route

GROUP = "Notifications"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"


def notes_of(route: Route, reply: Reply, method: str) -> list[JSONValue]:
    return [
        route.cleaned(params)
        for note in reply.notes
        if note["method"] == method and isinstance(params := note["params"], dict)
    ]


async def progress(route: Route) -> JSONValue:
    token = "my token/1"
    reply = await route.client.call(route.tools["progress"], {}, progressToken=token)
    told = notes_of(route, reply, "notifications/progress")
    return told or None


async def log_in_call(route: Route) -> JSONValue:
    """Ask for a level in the way of the era, then call."""
    meta: dict[str, JSONValue] = {}
    if isinstance(route.client, LegacyClient):
        (await route.client.request("logging/setLevel", {"level": "info"})).expect()
    else:
        meta[LOG_LEVEL] = "info"
    reply = await route.client.call(route.tools["log"], {}, **meta)
    return notes_of(route, reply, "notifications/message") or None


async def log_outside(route: Route) -> JSONValue:
    (await route.client.request("logging/setLevel", {"level": "info"})).expect()
    start = len(route.client.notices.all)
    route.upstream.emit("notifications/message", log_line("warning", {"outside": None}))
    found = await route.client.notices.first("notifications/message", WAIT_SECONDS, start)
    return None if found is None else route.cleaned(found)


async def level_told(route: Route) -> JSONValue:
    """The level that the server is told."""
    if isinstance(route.client, LegacyClient):
        (await route.client.request("logging/setLevel", {"level": "debug"})).expect()
        await route.client.call(route.tools["log"])
    else:
        await route.client.call(route.tools["log"], {}, **{LOG_LEVEL: "debug"})
    if route.upstream.is_modern:
        params = route.upstream.of("tools/call")[-1]["params"]
        meta = params.get("_meta") if isinstance(params, dict) else None
        return meta.get(LOG_LEVEL) if isinstance(meta, dict) else None
    return route.upstream.methods.level or None


def list_changed(kind: str) -> Measure:
    """An entry is added and announced; whoever lists again after the announcement sees it."""

    async def measure(route: Route) -> JSONValue:
        entries, entry = added(route, kind)
        await route.client.listen(Filter(lists=True))
        start = len(route.client.notices.all)
        entries.append(entry)
        try:
            return await announced(route, kind, start)
        finally:
            entries.remove(entry)
            start = len(route.client.notices.all)
            route.upstream.emit(f"notifications/{kind}/list_changed")
            await route.client.notices.first(f"notifications/{kind}/list_changed", 1.0, start)

    return measure


async def announced(route: Route, kind: str, start: int) -> JSONValue:
    method = f"notifications/{kind}/list_changed"
    route.upstream.emit(method)
    if await route.client.notices.first(method, WAIT_SECONDS, start) is None:
        return None
    listed = await route.client.every(f"{kind}/list", kind)
    return {"isListed": any(entry.get("title") == "Added" for entry in listed)}


def added(route: Route, kind: str) -> tuple[list[JSONValue], JSONObject]:
    methods = route.upstream.methods
    if kind == "resources":
        return methods.resources, {"uri": "note://added", "name": "added", "title": "Added"}
    entries = methods.tools if kind == "tools" else methods.prompts
    made = content.tool("added") if kind == "tools" else content.prompt("added")
    return entries, {**made, "title": "Added"}


async def updated(route: Route) -> JSONValue:
    uri = route.uris[content.NOTE]
    await route.client.listen(Filter(lists=False, uris=(uri,)))
    if not await route.until(lambda: route.upstream.is_subscribed(content.NOTE)):
        return None
    start = len(route.client.notices.all)
    params: JSONObject = {"uri": content.NOTE, "_meta": content.TRACE, **content.UNKNOWN}
    route.upstream.emit("notifications/resources/updated", params)
    method = "notifications/resources/updated"
    found = await route.client.notices.first(method, WAIT_SECONDS, start)
    if found is None:
        return None
    return {"params": route.cleaned(found), "isForeignHeard": await foreign(route)}


async def foreign(route: Route) -> bool:
    """Whether the client hears of a resource that it did not subscribe to."""
    start = len(route.client.notices.all)
    route.upstream.emit("notifications/resources/updated", {"uri": "note://2"})
    found = await route.client.notices.first("notifications/resources/updated", 0.3, start)
    return found is not None and route.upstream.is_modern


async def unsubscribed(route: Route) -> JSONValue:
    """The last subscriber's leaving reaches the server."""
    if not route.upstream.is_subscribed(content.NOTE):
        await updated(route)
    await route.client.unlisten([route.uris[content.NOTE]])
    is_gone = await route.until(lambda: not route.upstream.is_subscribed(content.NOTE))
    return {"isGone": True} if is_gone else None


async def cancelled(route: Route) -> JSONValue:
    methods, began = route.upstream.methods, asyncio.Event()
    waiting, before = methods.waiting, methods.cancelled
    params: JSONObject = {"name": route.tools["wait"], "arguments": {}}
    work = asyncio.ensure_future(route.client.cancel_after("tools/call", params, began))
    await route.until(lambda: methods.waiting > waiting)
    began.set()
    await work
    is_cancelled = await route.until(lambda: methods.cancelled > before)
    return {"isCancelled": True} if is_cancelled else None


async def roots_changed(route: Route) -> JSONValue:
    assert isinstance(route.client, LegacyClient)
    method = "notifications/roots/list_changed"
    await route.client.notify(method)
    return {"isTold": True} if await route.until(lambda: route.upstream.of(method)) else None


async def completed(route: Route) -> JSONValue:
    """The page of a URL elicitation is done: whoever was asked is told, by the id it was shown."""
    await route.client.call(route.tools["ask_url"])
    start = len(route.client.notices.all)
    params: JSONObject = {"elicitationId": content.PAGE["elicitationId"]}
    route.upstream.emit("notifications/elicitation/complete", params)
    method = "notifications/elicitation/complete"
    found = await route.client.notices.first(method, WAIT_SECONDS, start)
    return None if found is None else route.cleaned(found)


async def vendor(route: Route) -> JSONValue:
    start = len(route.client.notices.all)
    route.upstream.emit("notifications/vendor.example/beam", {"x": None})
    found = await route.client.notices.first("notifications/vendor.example/beam", 0.5, start)
    return None if found is None else route.cleaned(found)


def row(name: str, measure: Measure, does: str, **more: object) -> Probe:
    return Probe(name=name, group=GROUP, measure=measure, does=does, **more)  # type: ignore[arg-type]  # the row's own fields


OLD = {"clients": LEGACY, "servers": LEGACY}
PROBES = (
    row("progress", progress, "To the caller alone, with the caller's token."),
    row("message, in a call", log_in_call, "To the caller alone, from the level it asked for."),
    row("message, outside calls", log_outside, "To sessions that asked for the level.", **OLD),
    row("logging level", level_told, "The most verbose wish of all clients reaches the server."),
    *(
        row(
            f"{kind}/list_changed",
            list_changed(kind),
            "Sent when the new list is read; shown at once.",
        )
        for kind in ("tools", "prompts", "resources")
    ),
    row("resources/updated", updated, "To the subscribers of the resource."),
    row("resources/unsubscribe", unsubscribed, "The last subscriber's leaving reaches the server."),
    row("cancelled", cancelled, "The server's own call is cancelled."),
    row("roots/list_changed", roots_changed, "With consent, to the server.", **OLD),
    row("elicitation/complete", completed, "To whom was asked.", **OLD),
    row("vendor notifications", vendor, "Dropped: nobody subscribed to them.", **OLD),
)
