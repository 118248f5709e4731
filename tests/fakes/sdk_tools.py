"""The demo server of the suite, built on the SDK's low-level Server; it counts what it executes."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

Context: TypeAlias = "ServerRequestContext[dict[str, Any], Any]"
Arguments: TypeAlias = "dict[str, Any]"


def _tool(name: str, **properties: str) -> types.Tool:
    schema = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in properties.items()}
        | {"callId": {"type": "string"}},
        "required": list(properties),
    }
    return types.Tool(name=name, description=f"The {name} tool", input_schema=schema)


TOOLS = (
    _tool("echo", text="string"),
    _tool("add", a="number", b="number"),
    _tool("sleep", ms="integer"),
    _tool("big", kb="integer"),
    _tool("fail"),
    _tool("progress", steps="integer"),
    _tool("notify", n="integer"),
    _tool("change"),
)


class DemoServer:
    """Tools, resources, prompts, completion and logging; `executions` counts by `callId`."""

    def __init__(self) -> None:
        self.executions: Counter[str] = Counter()
        self.cancelled: Counter[str] = Counter()
        self.log_level = ""
        self.extra_tools: list[types.Tool] = []
        self._bus = InMemorySubscriptionBus()
        self._sessions: set[ServerSession] = set()
        self._run: dict[str, Callable[[Context, Arguments], Awaitable[str]]] = {
            "echo": self._echo,
            "add": self._add,
            "sleep": self._sleep,
            "big": self._big,
            "fail": self._fail,
            "progress": self._progress,
            "notify": self._notify,
            "change": self._change,
        }
        self.server = self._build()

    def _build(self) -> Server[dict[str, Any]]:
        server = Server(
            "demo",
            version="1.0",
            instructions="A server for tests.",
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_completion=self._complete,
            on_subscriptions_listen=ListenHandler(self._bus),
        )
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        server.add_notification_handler(
            "notifications/initialized", types.NotificationParams, self._initialized
        )
        return server

    async def announce_tools_changed(self) -> None:
        """Tell everyone who listens, in both eras."""
        await self._bus.publish(ToolsListChanged())
        for session in tuple(self._sessions):
            with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                await session.send_tool_list_changed()

    async def _initialized(self, ctx: Context, params: types.NotificationParams | None) -> None:
        self._sessions.add(ctx.session)

    # --- tools

    async def _list_tools(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[*TOOLS, *self.extra_tools])

    async def _call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        arguments = params.arguments or {}
        self.executions[str(arguments.get("callId", params.name))] += 1
        try:
            text = await self._run[params.name](ctx, arguments)
        except asyncio.CancelledError:
            self.cancelled[str(arguments.get("callId", params.name))] += 1
            raise
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=text)], is_error=params.name == "fail"
        )

    async def _echo(self, ctx: Context, arguments: Arguments) -> str:
        return str(arguments["text"])

    async def _add(self, ctx: Context, arguments: Arguments) -> str:
        return str(arguments["a"] + arguments["b"])

    async def _sleep(self, ctx: Context, arguments: Arguments) -> str:
        await asyncio.sleep(arguments["ms"] / 1000)
        return f"slept {arguments['ms']}"

    async def _big(self, ctx: Context, arguments: Arguments) -> str:
        return "0123456789abcdef" * 64 * int(arguments["kb"])

    async def _fail(self, ctx: Context, arguments: Arguments) -> str:
        return "it failed"

    async def _progress(self, ctx: Context, arguments: Arguments) -> str:
        steps = int(arguments["steps"])
        for step in range(1, steps + 1):
            await ctx.session.report_progress(step, steps, f"step {step}")
        return f"{steps} steps"

    async def _notify(self, ctx: Context, arguments: Arguments) -> str:
        for number in range(int(arguments["n"])):
            await ctx.session.send_notification(
                types.LoggingMessageNotification(
                    params=types.LoggingMessageNotificationParams(level="info", data=number)
                ),
                related_request_id=ctx.request_id,
            )
        return f"{arguments['n']} notifications"

    async def _change(self, ctx: Context, arguments: Arguments) -> str:
        self.extra_tools.append(_tool(f"extra{len(self.extra_tools) + 1}"))
        await self.announce_tools_changed()
        return f"{len(TOOLS) + len(self.extra_tools)} tools"

    # --- the rest of the protocol

    async def _list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[types.Resource(uri="note://1", name="one")])

    async def _list_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(uri_template="note://{id}", name="note")
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def _read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        contents = types.TextResourceContents(uri=uri, text=f"text of {uri}")
        return types.ReadResourceResult(contents=[contents])

    async def _list_prompts(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        argument = types.PromptArgument(name="who", required=True)
        return types.ListPromptsResult(prompts=[types.Prompt(name="greet", arguments=[argument])])

    async def _get_prompt(
        self, ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        text = f"say hi to {(params.arguments or {}).get('who', 'nobody')}"
        content = types.TextContent(type="text", text=text)
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])

    async def _complete(
        self, ctx: Context, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        words = [w for w in ("alice", "bob") if w.startswith(params.argument.value)]
        return types.CompleteResult(completion=types.Completion(values=words))

    async def _set_level(
        self, ctx: Context, params: types.SetLevelRequestParams
    ) -> types.EmptyResult:
        self.log_level = params.level
        return types.EmptyResult()


__all__ = ["TOOLS", "DemoServer"]
