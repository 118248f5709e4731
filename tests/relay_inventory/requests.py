"""Requests of clients: lists, calls, reads, prompts, completion, and the opening."""

from __future__ import annotations

from mcphub.core.types import JSONObject, JSONValue
from tests.fakes.relay import content
from tests.relay_inventory.probe import LEGACY, Measure, Probe
from tests.relay_inventory.route import Route

GROUP = "Requests"
NOT_FOUND = {-32002, -32602}
"""Of 2025-11-25 and of 2026-07-28."""
SERVER_INFO = "io.modelcontextprotocol/serverInfo"


async def opening(route: Route) -> JSONValue:
    found = route.client.opening
    meta = found.get("_meta")
    named = meta.get(SERVER_INFO) if isinstance(meta, dict) else None
    return {
        "serverInfo": found.get("serverInfo", named),
        "instructions": found.get("instructions"),
        "x-vendor": found.get("x-vendor"),
    }


def listing(method: str, key: str, mine: tuple[str, ...]) -> Measure:
    async def measure(route: Route) -> JSONValue:
        entries = await route.client.every(method, key)
        own = [route.own(entry) for entry in entries]
        return [entry for entry in own if isinstance(entry, dict) and entry.get("name") in mine]

    return measure


def calling(name: str) -> Measure:
    async def measure(route: Route) -> JSONValue:
        reply = await route.client.call(route.tools[name], {"q": "né\u2028"})
        return route.cleaned(reply.result) if reply.result else {"error": route.own(reply.error)}

    return measure


async def vendor_meta(route: Route) -> JSONValue:
    result = (await route.client.call(route.tools["content"])).found
    meta = result.get("_meta")
    return meta.get("vendor.example/trace") if isinstance(meta, dict) else None


async def unknown_fields(route: Route) -> JSONValue:
    return (await route.client.call(route.tools["content"])).found.get("x-vendor")


async def sent_meta(route: Route) -> JSONValue:
    """What of the client's own metadata reaches the server."""
    before = len(route.upstream.of("tools/call"))
    meta: dict[str, JSONValue] = {"vendor.example/trace": content.TRACE, "traceparent": TRACEPARENT}
    await route.client.call(route.tools["content"], {}, **meta)
    params = route.upstream.of("tools/call")[before]["params"]
    told = params.get("_meta") if isinstance(params, dict) else None
    return told.get("vendor.example/trace") if isinstance(told, dict) else None


TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def reading(uri: str) -> Measure:
    async def measure(route: Route) -> JSONValue:
        reply = await route.client.request("resources/read", {"uri": route.uris[uri]})
        return route.cleaned(reply.found)

    return measure


async def reading_template(route: Route) -> JSONValue:
    """A URI made of the template that the client was shown."""
    uri = route.uris["note://{id}"].replace("{id}", "42")
    found = (await route.client.request("resources/read", {"uri": uri})).found
    text = route.cleaned(found)["contents"]
    assert isinstance(text, list)
    entry = text[0]
    assert isinstance(entry, dict)
    return {"text": entry["text"], "sameUri": entry["uri"] == uri}


async def linked(route: Route) -> JSONValue:
    """The resource that a result links to can be read by the URI in the result."""
    blocks = (await route.client.call(route.tools["content"])).found["content"]
    assert isinstance(blocks, list)
    link, attached = blocks[3], blocks[4]
    assert isinstance(link, dict)
    assert isinstance(attached, dict)
    found = (await route.client.request("resources/read", {"uri": link["uri"]})).found
    embedded = attached["resource"]
    assert isinstance(embedded, dict)
    return {"read": route.cleaned(found), "embedded": route.own(embedded["uri"])}


async def unknown_resource(route: Route) -> JSONValue:
    reply = await route.client.request("resources/read", {"uri": "other://nowhere"})
    return {"isRefused": (reply.error or {}).get("code") in NOT_FOUND}


async def view(route: Route) -> JSONValue:
    """The view of an app: named in the tool, readable by that name."""
    tools = await route.client.every("tools/list", "tools")
    tool = next(entry for entry in tools if entry["name"] == route.tools["content"])
    meta = tool["_meta"]
    ui = meta.get("ui") if isinstance(meta, dict) else None
    assert isinstance(ui, dict)
    found = (await route.client.request("resources/read", {"uri": ui["resourceUri"]})).found
    return {"ui": route.own(ui), "read": route.cleaned(found)}


async def prompt(route: Route) -> JSONValue:
    params: JSONObject = {"name": route.prompts["greet"], "arguments": {"who": "Ada"}}
    return route.cleaned((await route.client.request("prompts/get", params)).found)


def completing(ref_type: str) -> Measure:
    async def measure(route: Route) -> JSONValue:
        ref: JSONObject = {"type": ref_type}
        if ref_type == "ref/prompt":
            ref["name"] = route.prompts["greet"]
        else:
            ref["uri"] = route.uris["note://{id}"]
        params: JSONObject = {"ref": ref, "argument": {"name": "who", "value": "al"}}
        params["context"] = {"arguments": {"other": "x"}}
        return route.cleaned((await route.client.request("completion/complete", params)).found)

    return measure


async def ping(route: Route) -> JSONValue:
    return route.cleaned((await route.client.request("ping")).found)


async def unknown_method(route: Route) -> JSONValue:
    reply = await route.client.request("vendor.example/beam", {"x": 1})
    return {"code": (reply.error or {}).get("code")}


def row(name: str, measure: Measure, does: str, **more: object) -> Probe:
    return Probe(name=name, group=GROUP, measure=measure, does=does, **more)  # type: ignore[arg-type]  # the row's own fields


PROBES = (
    row(
        "initialize, server/discover",
        opening,
        "One server: its own serverInfo and instructions. The aggregate is a server of its own.",
        in_aggregate=False,
    ),
    row(
        "tools/list",
        listing("tools/list", "tools", content.TOOL_NAMES),
        "Every field of every tool, all pages.",
    ),
    row("tools/call", calling("content"), "All kinds of content, unknown ones included."),
    row("tools/call, tool error", calling("tool_error"), "Stays a result with `isError`."),
    row("tools/call, JSON-RPC error", calling("protocol_error"), "Code, message and data stay."),
    row("vendor `_meta` of results", vendor_meta, "Value for value."),
    row("vendor `_meta` of requests", sent_meta, "Value for value, to the server."),
    row("unknown fields", unknown_fields, "Value for value."),
    row(
        "resources/list",
        listing("resources/list", "resources", ("one", "two", "view")),
        "Every field; the aggregate shows reversible URIs.",
    ),
    row(
        "resources/templates/list",
        listing("resources/templates/list", "resourceTemplates", ("note",)),
        "As resources.",
    ),
    row("resources/read, text", reading(content.NOTE), "Contents with the URI that was asked for."),
    row("resources/read, blob", reading("note://2"), "As text."),
    row("resources/read, by template", reading_template, "An expanded template is readable."),
    row(
        "resources/read, unknown",
        unknown_resource,
        "An error of the protocol, never empty contents.",
    ),
    row("resource links and embedded resources", linked, "What a result links to is readable."),
    row("`ui://` views (MCP Apps)", view, "`_meta.ui` stays; the view is readable."),
    row(
        "prompts/list",
        listing("prompts/list", "prompts", ("greet", "part")),
        "Every field of every prompt.",
    ),
    row("prompts/get", prompt, "Messages with their resources."),
    row("completion/complete, prompt", completing("ref/prompt"), "Arguments and context go up."),
    row("completion/complete, template", completing("ref/resource"), "As of a prompt."),
    row("ping", ping, "Answered by the hub.", clients=LEGACY, servers=LEGACY),
    row("unknown methods", unknown_method, "Not forwarded: -32601, as a server would say."),
)
