"""What servers ask of clients, in the course of a call."""

from __future__ import annotations

from mcphub.core.types import JSONObject, JSONValue
from tests.relay_inventory.probe import Measure, Probe
from tests.relay_inventory.route import Route

GROUP = "Questions to clients"


def asking(name: str) -> Measure:
    async def measure(route: Route) -> JSONValue:
        reply = await route.client.call(route.tools[name])
        if reply.result is None:
            return {"error": (reply.error or {}).get("message")}
        asked = [question_of(route, question) for question in reply.questions]
        told = reply.result.get("structuredContent")
        answers = told.get("answers") if isinstance(told, dict) else None
        return {"asked": sorted(asked, key=repr), "answered": answers}

    return measure


def question_of(route: Route, question: JSONObject) -> JSONValue:
    params = question["params"]
    assert isinstance(params, dict)
    shown = route.cleaned(params)
    shown.pop("elicitationId", None)
    return {"method": question["method"], "params": shown}


async def offered(route: Route) -> JSONValue:
    """What the server is told that the client can be asked, by a client that offers nothing."""
    await route.client.call(route.tools["content"])
    if route.upstream.is_modern:
        params = route.upstream.of("tools/call")[-1]["params"]
        meta = params.get("_meta") if isinstance(params, dict) else None
        told = meta.get("io.modelcontextprotocol/clientCapabilities") if meta else None  # type: ignore[union-attr]  # a dict when it is there
    else:
        params = route.upstream.of("initialize")[-1]["params"]
        told = params.get("capabilities") if isinstance(params, dict) else None
    found: list[JSONValue] = [*sorted(told)] if isinstance(told, dict) else []
    return found


def row(name: str, measure: Measure, does: str, *, is_offering: bool = True) -> Probe:
    return Probe(name=name, group=GROUP, measure=measure, does=does, is_offering=is_offering)


PROBES = (
    row("elicitation/create, form", asking("ask_form"), "Asked with every field, answered once."),
    row("elicitation/create, URL", asking("ask_url"), "The page's address as the server gave it."),
    row("sampling/createMessage", asking("sample"), "With consent; every field, both ways."),
    row("sampling/createMessage, tools", asking("sample_tools"), "As without tools."),
    row("roots/list", asking("roots"), "With consent; the client's roots as they are."),
    row("several questions at once", asking("two_questions"), "Each gets its own answer."),
    row(
        "what a client that offers nothing is said to offer",
        offered,
        "Nothing that nobody will answer.",
        is_offering=False,
    ),
)
