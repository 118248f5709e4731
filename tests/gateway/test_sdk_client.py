"""The SDK's own client, in both eras, as most applications meet the gateway."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult

from tests.fakes.asking_server import AskingServer
from tests.fakes.mcp_servers import Kind
from tests.gateway.hub import Hub

MODES = ["2026-07-28", "legacy"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [Kind.MODERN, Kind.LEGACY])
def test_the_sdk_lists_calls_reads_and_answers(hub: Hub, mode: Any, kind: Kind) -> None:
    hub.add("demo", kind, AskingServer())

    async def elicit(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"name": "Ada"})

    async def run() -> None:
        http = httpx2.AsyncClient(headers=dict(hub.person.headers), timeout=30)
        transport = streamable_http_client(f"{hub.urls[0]}/mcp", http_client=http)
        async with http, Client(transport, mode=mode, elicitation_callback=elicit) as client:
            tools = (await client.list_tools()).tools
            assert "demo__echo" in {tool.name for tool in tools}
            echo: Any = await client.call_tool("demo__echo", {"text": "é"})
            assert echo.content[0].text == "é"
            asked: Any = await client.call_tool("demo__ask", {})
            assert '"Ada"' in asked.content[0].text
            resources = (await client.list_resources()).resources
            read = await client.read_resource(resources[0].uri)
            assert str(read.contents[0].uri) == str(resources[0].uri)

    asyncio.run(asyncio.wait_for(run(), 30))
