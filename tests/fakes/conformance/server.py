"""The reference server of the server leg: `python -m tests.fakes.conformance.server PORT ERA`.

Its tools, resources and prompts carry the names that the scenarios call.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import mcp_types as types
import uvicorn
from mcp.server.mcpserver import Context, MCPServer, RequestStateSecurity
from mcp.server.mcpserver.prompts.base import Prompt, UserMessage
from mcp.shared.exceptions import MCPError

from mcphub.core.types import JSONObject
from tests.fakes.conformance import answers
from tests.fakes.conformance.inputs import add_asking_tools
from tests.fakes.event_memory import EventMemory
from tests.fakes.mcp_servers import OneEra

Ctx: TypeAlias = "Context[Any]"
STEP_SECONDS = 0.05
server = MCPServer(
    name="conformance", version="1", request_state_security=RequestStateSecurity(keys=[b"k" * 32])
)


def add_fixed_tools() -> None:
    def tool(name: str) -> Callable[[], types.CallToolResult]:
        return lambda: types.CallToolResult(content=answers.FIXED[name]())

    for name in answers.FIXED:
        server.add_tool(tool(name), name=name)


@server.tool()
def test_simple_text() -> str:
    return "This is a simple text response for testing."


@server.tool()
def test_error_handling() -> str:
    raise RuntimeError("This tool intentionally returns an error for testing")


@server.tool()
async def test_tool_with_logging(ctx: Ctx) -> str:
    for step in ("started", "processing data", "completed"):
        await ctx.info(f"Tool {step}")
        await asyncio.sleep(STEP_SECONDS)
    return "logged"


@server.tool()
async def test_logging_tool(ctx: Ctx) -> str:
    await ctx.info("Tool line")
    return "logged"


@server.tool()
async def test_streaming_elicitation(ctx: Ctx) -> str | types.InputRequiredResult:
    await ctx.report_progress(progress=1, total=2)
    got = ctx.input_responses or {}
    if "name" in got:
        return "streamed"
    asked = answers.form("What is your name?", name={"type": "string"})
    return types.InputRequiredResult(input_requests={"name": asked})


@server.tool()
async def test_tool_with_progress(ctx: Ctx) -> str:
    for percent in (0, 50, 100):
        await ctx.report_progress(progress=percent, total=100)
        await asyncio.sleep(STEP_SECONDS)
    return "progressed"


@server.tool()
async def test_sampling(prompt: str, ctx: Ctx) -> str:
    said = await ctx.session.create_message(
        messages=[types.SamplingMessage(role="user", content=answers.text(prompt))],
        max_tokens=100,
        related_request_id=ctx.request_id,
    )
    return "LLM response: " + (said.content.text if said.content.type == "text" else "?")


async def asked(ctx: Ctx, message: str, schema: JSONObject) -> str:
    answer = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
    return f"action={answer.action}, content={json.dumps(answer.content or {})}"


@server.tool()
async def test_elicitation(message: str, ctx: Ctx) -> str:
    return "User response: " + await asked(ctx, message, answers.REPLY)


@server.tool()
async def test_elicitation_sep1034_defaults(ctx: Ctx) -> str:
    return "Elicitation completed: " + await asked(ctx, "with defaults", answers.DEFAULTS)


@server.tool()
async def test_elicitation_sep1330_enums(ctx: Ctx) -> str:
    return "Elicitation completed: " + await asked(ctx, "with enums", answers.ENUMS)


@server.tool()
async def test_reconnection(ctx: Ctx) -> str:
    await ctx.close_sse_stream()
    await asyncio.sleep(4 * STEP_SECONDS)
    return "Reconnection test completed"


def region_of(region: str = "none") -> str:
    return f"region={region}"


@server.tool()
def test_missing_capability(ctx: Ctx) -> str:
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        raise MCPError(
            code=types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            message="needs sampling",
            data={"requiredCapabilities": {"sampling": {}}},
        )
    return "ok"


@server.tool()
async def test_trigger_tool_change(ctx: Ctx) -> str:
    server.add_tool(lambda: "x", name="appearing_tool")
    server.remove_tool("appearing_tool")
    await ctx.notify_tools_changed()
    return "changed"


@server.tool()
async def test_trigger_prompt_change(ctx: Ctx) -> str:
    server.add_prompt(Prompt.from_function(lambda: "x", name="appearing_prompt"))
    server.remove_prompt("appearing_prompt")
    await ctx.notify_prompts_changed()
    return "changed"


@server.tool()
def json_schema_2020_12_tool() -> str:
    return "ok"


# --- resources, prompts, completion


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    return base64.b64decode(answers.PNG)


@server.resource("test://watched-resource", mime_type="text/plain")
def watched() -> str:
    return "watched"


@server.resource("test://template/{id}/data", mime_type="application/json")
def template(id: str) -> str:  # noqa: A002  (the template's own word)
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


@server.prompt()
def test_simple_prompt() -> list[UserMessage]:
    return [UserMessage(answers.text("This is a simple prompt for testing."))]


@server.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> list[UserMessage]:
    said = f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"
    return [UserMessage(answers.text(said))]


def with_embedded_resource(resourceUri: str) -> list[UserMessage]:  # noqa: N803  (the suite's)
    found = answers.embedded(resourceUri, "Embedded resource content for testing.")
    asked = answers.text("Please process the embedded resource above.")
    return [UserMessage(found), UserMessage(asked)]


@server.prompt()
def test_prompt_with_image() -> list[UserMessage]:
    return [
        UserMessage(answers.image()),
        UserMessage(answers.text("Please analyze the image above.")),
    ]


async def complete(ref: object, argument: types.CompletionArgument, context: object) -> Any:
    words = [word for word in ("paris", "park", "party") if word.startswith(argument.value)]
    return types.Completion(values=words, total=3, has_more=False)


def add_empty_answers() -> None:
    """Accept what has no answer of its own."""

    async def empty(ctx: object, params: object) -> types.EmptyResult:
        return types.EmptyResult()

    handler: Callable[..., Awaitable[types.EmptyResult]] = empty
    low = server._lowlevel_server
    low.add_request_handler("logging/setLevel", types.SetLevelRequestParams, handler)
    low.add_request_handler("resources/subscribe", types.SubscribeRequestParams, handler)
    low.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, handler)


def finish() -> None:
    """Describe everything and put in the schemas that no signature yields."""
    tools = server._tool_manager._tools
    tools["json_schema_2020_12_tool"].parameters = answers.SCHEMA_2020
    region: JSONObject = {"type": "string", "x-mcp-header": "Region"}
    tools["test_x_mcp_header"].parameters = {"type": "object", "properties": {"region": region}}
    things: list[Any] = [*tools.values(), *server._prompt_manager._prompts.values()]
    for thing in things:
        thing.description = thing.description or f"{thing.name} of the conformance suite"


def main() -> None:
    add_fixed_tools()
    add_asking_tools(server)
    complete_by: Any = server.completion
    complete_by()(complete)
    server.add_tool(region_of, name="test_x_mcp_header")
    server.add_prompt(
        Prompt.from_function(with_embedded_resource, name="test_prompt_with_embedded_resource")
    )
    add_empty_answers()
    finish()
    both = server.streamable_http_app(event_store=EventMemory(), retry_interval=100)
    app = OneEra(both, is_modern=False) if sys.argv[2] == "legacy" else both
    # h11 trims field values, as RFC 9110 5.5 asks; httptools does not
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), http="h11", log_level="error")


if __name__ == "__main__":
    main()
