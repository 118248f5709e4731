"""A demo server whose tools ask back, in the way of the era in which they are called."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import mcp_types as types
from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tests.fakes.sdk_tools import Arguments, Context, DemoServer

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "age": {"type": "integer", "minimum": 18},
    },
    "required": ["name"],
}
STATE = 'é "\\u0000\\ud83d"  {"a": [1, 2.50]} 世界\n\ttail '
"""A request state that any rewriting would change."""
PAGE = "https://pay.example/step?token=do-not-store"

Answer: TypeAlias = "types.CallToolResult | types.InputRequiredResult"
FORM = types.ElicitRequest(
    params=types.ElicitRequestFormParams(message="Who are you?", requested_schema=SCHEMA)
)
VISIT = types.ElicitRequest(
    params=types.ElicitRequestURLParams(message="Pay first.", url=PAGE, elicitation_id="pay-1")
)
SAMPLE = types.CreateMessageRequest(
    params=types.CreateMessageRequestParams(
        messages=[
            types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Hi"))
        ],
        max_tokens=10,
    )
)


def _tool(name: str) -> types.Tool:
    schema = {"type": "object", "properties": {"callId": {"type": "string"}}}
    return types.Tool(name=name, input_schema=schema)


class AskingServer(DemoServer):
    """`ask`, `ask_twice`, `visit`, `sample`, `roots`, `page`, `endless`, `undeclared`, `later`."""

    def __init__(self) -> None:
        self.states: list[str | None] = []
        self.asked: list[Arguments] = []
        self.sessions_seen: list[str] = []
        self.is_paid = False
        self._asking: dict[
            str, Callable[[Context, types.CallToolRequestParams], Awaitable[Answer]]
        ] = {
            "ask": self._ask,
            "ask_twice": self._ask_twice,
            "visit": self._visit,
            "sample": self._sample,
            "roots": self._roots,
            "page": self._page,
            "endless": self._endless,
            "undeclared": self._undeclared,
            "later": self._later,
        }
        super().__init__()
        self.extra_tools = [_tool(name) for name in self._asking]

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Answer:  # type: ignore[override]  # questions are answers too
        run = self._asking.get(params.name)
        if run is None:
            return await super()._call_tool(ctx, params)
        self.executions[str((params.arguments or {}).get("callId", params.name))] += 1
        if params.input_responses is not None or params.request_state is not None:
            self.states.append(params.request_state)
        return await run(ctx, params)

    async def _ask(self, ctx: Context, params: types.CallToolRequestParams) -> Answer:
        if not _is_modern(ctx):
            return told(
                await ctx.session.elicit_form(
                    "Who are you?", SCHEMA, related_request_id=ctx.request_id
                )
            )
        if params.input_responses is None:
            return types.InputRequiredResult(input_requests={"who": FORM}, request_state=STATE)
        return told(params.input_responses["who"])

    async def _ask_twice(self, ctx: Context, params: types.CallToolRequestParams) -> Answer:
        if not _is_modern(ctx):
            for message in ("first", "second"):
                found = await ctx.session.elicit_form(
                    message, SCHEMA, related_request_id=ctx.request_id
                )
            return told(found)
        if params.request_state == "second":
            return told((params.input_responses or {})["who"])
        following = "second" if params.request_state == "first" else "first"
        return types.InputRequiredResult(input_requests={"who": FORM}, request_state=following)

    async def _visit(self, ctx: Context, params: types.CallToolRequestParams) -> Answer:
        if not _is_modern(ctx):
            return told(
                await ctx.session.elicit_url(
                    "Pay first.", PAGE, "pay-1", related_request_id=ctx.request_id
                )
            )
        if params.input_responses is None:
            return types.InputRequiredResult(input_requests={"pay": VISIT})
        return told(params.input_responses["pay"])

    async def _sample(self, ctx: Context, params: types.CallToolRequestParams) -> Answer:
        if not _is_modern(ctx):
            return told(
                await ctx.session.send_request(
                    SAMPLE,
                    types.CreateMessageResult,
                    metadata=ServerMessageMetadata(related_request_id=ctx.request_id),
                )
            )
        if params.input_responses is None:
            return types.InputRequiredResult(input_requests={"say": SAMPLE})
        return told(params.input_responses["say"])

    async def _roots(self, ctx: Context, params: types.CallToolRequestParams) -> Answer:
        if not _is_modern(ctx):
            return told(
                await ctx.session.send_request(types.ListRootsRequest(), types.ListRootsResult)
            )
        if params.input_responses is None:
            return types.InputRequiredResult(input_requests={"r": types.ListRootsRequest()})
        return told(params.input_responses["r"])

    async def _page(self, ctx: Context, params: types.CallToolRequestParams) -> Answer:
        """Want a page finished before anything is done, as servers of 2025-11-25 do."""
        if not self.is_paid:
            page = types.ElicitRequestURLParams(
                message="Pay first.", url=PAGE, elicitation_id="pay-1"
            )
            raise UrlElicitationRequiredError([page])
        return told(types.ElicitResult(action="accept"))

    async def _endless(self, ctx: Context, params: types.CallToolRequestParams) -> Answer:
        return types.InputRequiredResult(request_state=f"{len(self.states)}")

    async def _undeclared(self, ctx: Context, params: types.CallToolRequestParams) -> Answer:
        return types.InputRequiredResult(input_requests={"say": SAMPLE})

    async def _later(self, ctx: Context, params: types.CallToolRequestParams) -> Answer:
        """Be done at the third sending."""
        if params.request_state == "2":
            return told(types.ElicitResult(action="accept"))
        return types.InputRequiredResult(request_state="2" if params.request_state else "1")

    async def finish_page(self) -> None:
        """Tell every session that the page was finished."""
        self.is_paid = True
        for session in tuple(self._sessions):
            await session.send_elicit_complete("pay-1")


def _is_modern(ctx: Context) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def told(result: object) -> types.CallToolResult:
    told = result.model_dump(mode="json", by_alias=True, exclude_none=True)  # type: ignore[attr-defined]
    content = types.TextContent(type="text", text=json.dumps(told))
    return types.CallToolResult(content=[content])
