"""Clients that nobody here wrote use the gateway with a Bearer key: list, call, read, prompt."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any, TypeAlias

import httpx2
import pytest
from fastmcp import Client as FastMcpClient
from fastmcp.client.transports import StreamableHttpTransport
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.fakes.sdk_tools import TOOLS
from tests.live.api import Api
from tests.live.newcomer import Newcomer
from tests.live.stack import RunningHub
from tests.node_tools import FOLDER, modern_node, package

pytestmark = pytest.mark.live
Seen: TypeAlias = "dict[str, Any]"
SECONDS = 60
PATHS = {"/mcp": "up__", "/mcp/s/up": ""}
"""What each endpoint puts before the names of the server `up`."""


@pytest.fixture(params=sorted(PATHS))
def path(request: pytest.FixtureRequest, api: Api) -> str:
    found: str = request.param
    return found


def expected(path: str) -> Seen:
    return {
        "tools": sorted(PATHS[path] + tool.name for tool in TOOLS),
        "text": "hi",
        "resource": "text of note://1",
        "prompt": "say hi to Ada",
    }


async def used(client: Any) -> Seen:
    """Do the four things with a client whose methods are the SDK's."""
    tools = await client.list_tools()
    names = sorted(tool.name for tool in getattr(tools, "tools", tools))
    echo = next(name for name in names if name.endswith("echo"))
    called = await client.call_tool(echo, {"text": "hi"})
    resources = await client.list_resources()
    uri = getattr(resources, "resources", resources)[0].uri
    read = await client.read_resource(str(uri))
    prompts = await client.list_prompts()
    name = getattr(prompts, "prompts", prompts)[0].name
    prompt = await client.get_prompt(name, {"who": "Ada"})
    return {
        "tools": names,
        "text": called.content[0].text,
        "resource": getattr(read, "contents", read)[0].text,
        "prompt": prompt.messages[0].content.text,
    }


@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
def test_the_sdks_client_uses_both_endpoints_in_both_eras(
    stack: RunningHub, newcomer: Newcomer, path: str, mode: Any
) -> None:
    async def run() -> Seen:
        headers = {"Authorization": f"Bearer {newcomer.api_key}"}
        async with AsyncExitStack() as exits:
            http = await exits.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=30))
            transport = streamable_http_client(f"{stack.url}{path}", http_client=http)
            return await used(await exits.enter_async_context(Client(transport, mode=mode)))

    assert asyncio.run(run()) == expected(path)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_fastmcps_client_uses_both_endpoints_in_both_eras(
    stack: RunningHub, newcomer: Newcomer, path: str, mode: Any
) -> None:
    async def run() -> Seen:
        transport = StreamableHttpTransport(f"{stack.url}{path}", auth=newcomer.api_key)
        async with FastMcpClient(transport, mode=mode) as client:
            return await used(client)

    assert asyncio.run(run()) == expected(path)


def node(*command: str) -> Any:
    """Run a program on Node.js; returns the JSON that it prints."""
    ran = subprocess.run(
        [modern_node(), *command],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    return json.loads(ran.stdout)


@pytest.mark.node
def test_the_ai_sdk_uses_both_endpoints(stack: RunningHub, newcomer: Newcomer, path: str) -> None:
    package("@ai-sdk", "mcp")
    seen = node("ai_sdk.mjs", f"{stack.url}{path}", newcomer.api_key)
    assert {**seen, "tools": sorted(seen["tools"])} == expected(path)


@pytest.mark.node
def test_the_inspector_uses_both_endpoints(
    stack: RunningHub, newcomer: Newcomer, path: str
) -> None:
    program = package("@modelcontextprotocol", "inspector", "clients", "launcher", "build")

    def ask(method: str, *more: str) -> Any:
        key = f"Authorization: Bearer {newcomer.api_key}"
        where: Sequence[str] = ("--cli", f"{stack.url}{path}", "--transport", "http")
        return node(str(program / "index.js"), *where, "--header", key, "--method", method, *more)

    names = [tool["name"] for tool in ask("tools/list")["tools"]]
    echo = next(name for name in names if name.endswith("echo"))
    called = ask("tools/call", "--tool-name", echo, "--tool-arg", "text=hi")
    uri = ask("resources/list")["resources"][0]["uri"]
    prompt = ask("prompts/list")["prompts"][0]["name"]
    got = ask("prompts/get", "--prompt-name", prompt, "--prompt-args", "who=Ada")
    assert expected(path) == {
        "tools": sorted(names),
        "text": called["content"][0]["text"],
        "resource": ask("resources/read", "--uri", uri)["contents"][0]["text"],
        "prompt": got["messages"][0]["content"]["text"],
    }
