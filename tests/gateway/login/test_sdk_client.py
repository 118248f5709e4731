"""The SDK's own client, pointed at the address alone, signs its user in and calls a tool."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata
from mcp.shared.auth import OAuthToken as Tokens
from pytest_django.fixtures import Settings

from gateway.login.models import ClientLogin
from gateway.login.provider import provider
from tests.fakes.mcp_servers import Kind
from tests.gateway.hub import Hub
from tests.gateway.login.client_app import FIELD
from tests.world import Person

SECONDS = 30.0
CALLBACK = "http://127.0.0.1:51999/callback"


@dataclass(kw_only=True)
class Keychain:
    """Where the client keeps what it was given."""

    tokens: Tokens | None = None
    client_info: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> Tokens | None:
        return self.tokens

    async def set_tokens(self, tokens: Tokens) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client_info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client_info = client_info


@dataclass(kw_only=True)
class Desktop:
    """A person with an MCP client and a browser on one computer."""

    url: str
    person: Person
    keychain: Keychain = field(default_factory=Keychain)
    asked: list[str] = field(default_factory=list)
    back: dict[str, str] = field(default_factory=dict)

    async def open_page(self, address: str) -> None:
        """Log in, allow, and let the redirect lead back to the client."""
        self.asked.append(address)
        async with httpx.AsyncClient(base_url=address, follow_redirects=True) as browser:
            login = await browser.get(address)
            assert login.url.path == "/login"
            credentials = {"username": self.person.user.username, "password": "correct horse"}
            fields = dict(FIELD.findall(login.text))
            fields["next"] = parse_qs(login.url.query.decode())["next"][0]
            page = await browser.post(login.url, data={**fields, **credentials})
            assert page.url.path == "/oauth/authorize", page.text
            sent = {**dict(FIELD.findall(page.text)), "decision": "allow"}
            answer = await browser.post("/oauth/authorize", data=sent, follow_redirects=False)
        location = answer.headers["location"]
        assert location.startswith(CALLBACK)
        query = parse_qs(urlsplit(location).query)
        self.back = {name: values[0] for name, values in query.items()}

    async def callback(self) -> AuthorizationCodeResult:
        return AuthorizationCodeResult.model_validate(self.back)

    def sign_in(self) -> OAuthClientProvider:
        """Return the SDK's way to authenticate, which knows nothing but the address."""
        metadata = OAuthClientMetadata.model_validate(
            {"client_name": "Desktop", "redirect_uris": [CALLBACK]}
        )
        return OAuthClientProvider(
            self.url,
            metadata,
            self.keychain,
            redirect_handler=self.open_page,
            callback_handler=self.callback,
        )

    async def call(
        self, tool: str, arguments: dict[str, Any], auth: OAuthClientProvider | None = None
    ) -> Any:
        """Connect and call a tool."""
        auth = auth or self.sign_in()
        async with (
            asyncio.timeout(SECONDS),
            httpx2.AsyncClient(auth=auth, timeout=SECONDS) as http,
            Client(streamable_http_client(self.url, http_client=http)) as client,
        ):
            return await client.call_tool(tool, arguments)


@pytest.fixture
def desktop(hub: Hub, settings: Settings) -> Desktop:
    settings.BASE_URL = hub.urls[0]
    settings.OAUTH2_PROVIDER = provider(hub.urls[0], idle_seconds=3600)
    settings.CLIENT_LOGIN = "LOOPBACK"
    hub.add("demo", Kind.MODERN)
    return Desktop(url=f"{hub.urls[0]}/mcp", person=hub.person)


def test_client_that_knows_only_the_address_signs_in_and_calls_a_tool(desktop: Desktop) -> None:
    result = asyncio.run(desktop.call("demo__echo", {"text": "hello"}))
    assert not result.is_error
    assert len(desktop.asked) == 1
    login = ClientLogin.unscoped.get()
    assert (login.member_id, login.endpoint) == (desktop.person.member.id, "/mcp")
    assert login.client.name == "Desktop"


def test_client_whose_token_has_run_out_renews_it_and_asks_nobody(desktop: Desktop) -> None:
    async def call_twice() -> Any:
        auth = desktop.sign_in()
        await desktop.call("demo__echo", {"text": "one"}, auth)
        first = desktop.keychain.tokens
        auth.context.token_expiry_time = 1.0
        result = await desktop.call("demo__echo", {"text": "two"}, auth)
        assert desktop.keychain.tokens != first
        return result

    assert not asyncio.run(call_twice()).is_error
    assert len(desktop.asked) == 1
    assert ClientLogin.unscoped.count() == 1


def test_client_that_is_started_again_uses_what_it_has(desktop: Desktop) -> None:
    asyncio.run(desktop.call("demo__echo", {"text": "one"}))
    assert not asyncio.run(desktop.call("demo__echo", {"text": "two"})).is_error
    assert len(desktop.asked) == 1


def test_client_at_one_server_gets_a_token_for_it_alone(desktop: Desktop) -> None:
    desktop.url = f"{desktop.url}/s/demo"
    result = asyncio.run(desktop.call("echo", {"text": "hello"}))
    assert not result.is_error
    assert ClientLogin.unscoped.get().endpoint == "/mcp/s/demo"
