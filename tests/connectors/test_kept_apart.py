"""Two members with one server share nothing: no session, no list, no answer."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from redis import Redis

from connectors import selectors
from connectors.models import Connection
from connectors.server_spec import AuthType
from connectors.services import custom_servers
from connectors.services.custom_servers import NewServer
from mcphub.core.types import JSONObject
from tests.connectors.session_stack import Stack, running_worker
from tests.fakes.raw_server import RawServer, Request, Wire, result, serving_in_thread
from tests.world import Person, World

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def stack(transactional_db: None, redis: Redis) -> Iterator[Stack]:
    with running_worker() as stack:
        yield stack


@dataclass
class Personal(RawServer):
    """Gives each session an id of its own, and each token a tool of its own."""

    sessions: list[str] = field(default_factory=list)

    async def on_initialize(self, request: Request, wire: Wire) -> None:
        self.sessions.append(secrets.token_hex(8))
        headers = [("Mcp-Session-Id", self.sessions[-1])]
        await wire.answer(result(request.id, self.initialize_result()), headers=headers)

    async def on_list_tools(self, request: Request, wire: Wire) -> None:
        name = tool_of(request.headers.get("authorization", "nobody"))
        tool: JSONObject = {"name": name, "inputSchema": {"type": "object"}}
        await wire.answer(result(request.id, {"tools": [tool]}))


@pytest.mark.parametrize("has_tokens", [True, False], ids=["own tokens", "no authentication"])
def test_g01_members_never_share_a_session_of_one_server(
    world: World, stack: Stack, *, has_tokens: bool
) -> None:
    server = Personal()
    with serving_in_thread(server):
        for person in (world.alice, world.bob, world.charlie):
            row = add(person, server.url, has_token=has_tokens)
            assert stack.call(stack.connect(person.principal, row), "x") is None
        used = [call.headers["mcp-session-id"] for call in server.of("tools/call")]
    assert used == server.sessions
    assert len(set(used)) == 3


def test_g02_a_list_belongs_to_the_credentials_that_it_was_read_with(
    world: World, stack: Stack
) -> None:
    server = Personal()
    with serving_in_thread(server):
        for person in (world.alice, world.bob):
            stack.connect(person.principal, add(person, server.url))
    for person in (world.alice, world.bob):
        (view,) = selectors.servers_for(person.principal)
        assert [tool.name for tool in view.tools] == [tool_of(token_of(person))]


def tool_of(token: str) -> str:
    """Not the token itself: the hub keeps no list that names a secret."""
    return f"of-{token[-5:]}"


def token_of(person: Person) -> str:
    return f"token-{person.member.pk.hex[-12:]}"


def add(person: Person, url: str, *, has_token: bool = True) -> Connection:
    token: JSONObject = {"token": token_of(person)} if has_token else {}
    auth_type = AuthType.BEARER if has_token else AuthType.NONE
    new = NewServer(name="Shared", url=url, auth_type=auth_type, credentials=token)
    return custom_servers.create_custom_server(person.principal, new)
