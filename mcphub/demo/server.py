"""The demo server itself, on the SDK's low-level Server: both eras over Streamable HTTP.

`MCPServer` is not used, since it configures the root logger of the process that it runs in.
"""

from __future__ import annotations

from typing import Any

import mcp_types as types
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from mcphub import __version__
from mcphub.demo.tools import TOOLS, Context, text

ABOUT = "demo://about"
GREETING = "demo://greeting/{name}"
GREETING_PREFIX = "demo://greeting/"
NAMES = ("Ada", "Alan", "Barbara", "Grace", "Linus", "Margaret")
CITIES = ("Berlin", "Bern", "Lagos", "Lima", "Oslo", "Osaka")
UNKNOWN_RESOURCE = -32602

Page = types.PaginatedRequestParams | None


async def list_tools(_context: Context, _params: Page) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[demo.tool for demo in TOOLS.values()])


async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    demo = TOOLS.get(params.name)
    if demo is None:
        raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown tool: {params.name}")
    arguments = params.arguments or {}
    problem = best_match(Draft202012Validator(demo.tool.input_schema).iter_errors(arguments))
    if problem is not None:
        return text(f"Invalid arguments: {problem.message}", is_error=True)
    return await demo.run(context, arguments)


async def list_resources(_context: Context, _params: Page) -> types.ListResourcesResult:
    about = types.Resource(
        uri=ABOUT, name="about", title="About this server", mime_type="text/plain"
    )
    return types.ListResourcesResult(resources=[about])


async def list_templates(_context: Context, _params: Page) -> types.ListResourceTemplatesResult:
    greeting = types.ResourceTemplate(
        uri_template=GREETING, name="greeting", description="A greeting.", mime_type="text/plain"
    )
    return types.ListResourceTemplatesResult(resource_templates=[greeting])


async def read_resource(
    _context: Context, params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    uri = str(params.uri)
    if uri == ABOUT:
        said = "The demo server of mcphub. Nothing here is real."
    elif uri.startswith(GREETING_PREFIX):
        said = f"Hello, {uri.removeprefix(GREETING_PREFIX)}!"
    else:
        raise MCPError(code=UNKNOWN_RESOURCE, message="Resource not found", data={"uri": uri})
    content = types.TextResourceContents(uri=uri, text=said, mime_type="text/plain")
    return types.ReadResourceResult(contents=[content])


async def list_prompts(_context: Context, _params: Page) -> types.ListPromptsResult:
    city = types.PromptArgument(name="city", description="Where to", required=True)
    prompt = types.Prompt(name="plan_trip", description="Ask for a travel plan.", arguments=[city])
    return types.ListPromptsResult(prompts=[prompt])


async def get_prompt(
    _context: Context, params: types.GetPromptRequestParams
) -> types.GetPromptResult:
    city = (params.arguments or {}).get("city")
    if params.name != "plan_trip" or not city:
        raise MCPError(code=types.INVALID_PARAMS, message="Needs plan_trip and a city")
    said = types.TextContent(type="text", text=f"Plan two days in {city}.")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=said)])


async def complete(_context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    words = {"city": CITIES, "name": NAMES}.get(params.argument.name, ())
    typed = params.argument.value.lower()
    values = [word for word in words if word.lower().startswith(typed)]
    completion = types.Completion(values=values, total=len(values), has_more=False)
    return types.CompleteResult(completion=completion)


def build() -> Server[Any]:
    """Return the server with everything that it offers."""
    return Server(
        "mcphub-demo",
        version=__version__,
        title="mcphub demo server",
        instructions="Tools, resources and prompts to try an MCP client with.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
    )
