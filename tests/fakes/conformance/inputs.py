"""The tools of the suite's server leg that answer 2026-07-28 clients with `input_required`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage

from tests.fakes.conformance.answers import Responses, field, form, roots, said, sample, text

Ctx: TypeAlias = "Context[Any]"
Asks: TypeAlias = "Mapping[str, Any]"
PREFIX = "test_input_required_result_"
NAME = form("What is your name?", name={"type": "string"})


def add_asking_tools(server: MCPServer) -> None:
    def once(
        name: str, asks: Asks, done: Callable[[Responses], str], state: str | None = None
    ) -> None:
        """A tool that asks one round of questions and is done when all are answered."""

        async def tool(ctx: Ctx) -> str | types.InputRequiredResult:
            got: Responses = ctx.input_responses or {}
            if set(asks) <= set(got) and (state is None or ctx.request_state == state):
                return done(got)
            return types.InputRequiredResult(input_requests=dict(asks), request_state=state)

        server.add_tool(tool, name=PREFIX + name)

    capital = sample("What is the capital of France?")
    confirm = form("Please confirm", ok={"type": "boolean"})
    once(
        "elicitation", {"user_name": NAME}, lambda got: f"Hello, {field(got, 'user_name', 'name')}!"
    )
    once("sampling", {"capital_question": capital}, lambda got: said(got, "capital_question"))
    once(
        "list_roots",
        {"client_roots": types.ListRootsRequest()},
        lambda got: f"{roots(got, 'client_roots')} root(s)",
    )
    once("request_state", {"confirm": confirm}, lambda got: "state-ok", "opaque-1")
    everything = {
        "user_name": NAME,
        "greeting": sample("Generate a greeting"),
        "client_roots": types.ListRootsRequest(),
    }
    once("multiple_inputs", everything, lambda got: "got all", "opaque-2")
    server.add_tool(multi_round, name=f"{PREFIX}multi_round")
    server.add_tool(tampered_state, name=f"{PREFIX}tampered_state")
    server.add_tool(capabilities, name=f"{PREFIX}capabilities")
    server.prompt(name=f"{PREFIX}prompt")(prompt)


async def multi_round(ctx: Ctx) -> str | types.InputRequiredResult:
    state = json.loads(ctx.request_state or '{"round": 0}')
    got: Responses = ctx.input_responses or {}
    if state["round"] == 1 and "step1" in got:
        state = {"round": 2, "who": field(got, "step1", "name")}
        colour = form("Step 2: favourite colour?", color={"type": "string"})
        return asking({"step2": colour}, json.dumps(state))
    if state["round"] == 2 and "step2" in got:
        return f"{state['who']} likes {field(got, 'step2', 'color')}"
    first = form("Step 1: name?", name={"type": "string"})
    return asking({"step1": first}, json.dumps({"round": 1}))


async def tampered_state(ctx: Ctx) -> str | types.InputRequiredResult:
    if ctx.request_state:
        return "state-ok"
    return asking({"confirm": form("Please confirm", ok={"type": "boolean"})}, "sealed")


async def capabilities(ctx: Ctx) -> types.InputRequiredResult:
    declared, asks = ctx.client_capabilities, dict[str, Any]()
    if declared and declared.sampling is not None:
        asks["s"] = sample("hello")
    if declared and declared.elicitation is not None:
        asks["e"] = NAME
    return asking(asks, "x")


async def prompt(ctx: Ctx) -> list[UserMessage] | types.InputRequiredResult:
    got: Responses = ctx.input_responses or {}
    if "user_context" in got:
        context = field(got, "user_context", "context")
        return [UserMessage(text(f"Use the following context: {context}"))]
    return asking({"user_context": form("What context?", context={"type": "string"})}, None)


def asking(asks: Asks, state: str | None) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=dict(asks), request_state=state)
