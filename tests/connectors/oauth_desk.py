"""Alice at her desk: one member, one worker, one protected server; each step can be taken alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlsplit
from uuid import UUID

import httpx
import pytest
from asgiref.sync import async_to_sync
from redis import Redis

from connectors import selectors
from connectors.models import Connection
from connectors.services import connections
from connectors.states import State
from oauth import callbacks, flows
from oauth.means import open_means
from oauth.models import Grant
from oauth.records import requests
from oauth.records.requests import Visitor
from tests.connectors.session_stack import Stack, add_server, running_worker
from tests.fakes.oauth_mcp import ProtectedMcp
from tests.waiting import eventually
from tests.world import Person, World


@dataclass
class Desk:
    """Alice at her desk, with one worker and one protected server."""

    stack: Stack
    server: ProtectedMcp
    person: Person

    def add(self, auth_type: str = "oauth") -> Connection:
        return add_server(self.person.principal, self.server.mcp_url, auth_type=auth_type)

    def connect(self, row: Connection) -> Connection:
        """Connect as a member does; returns the row when the attempt is over."""
        connections.connect(self.person.principal, row)
        self.stack.try_open(row)
        row.refresh_from_db()
        return row

    def sign_in(self, row: Connection) -> None:
        """Walk through the address on the server object and complete it as an app does."""
        address = self.view(row).authorization_url
        assert address is not None
        request_id = UUID(urlsplit(address).path.rpartition("/")[2])
        at_provider = requests.address_of(request_id)
        assert at_provider is not None
        back = httpx.get(at_provider.value, follow_redirects=False).headers["location"]
        async_to_sync(self.complete)(back, row.pk)

    async def complete(self, back: str, key: UUID) -> None:
        async with open_means() as means:
            visitor = Visitor(member_id=self.person.member.pk)
            await flows.complete(means, callbacks.read_url(back, subject_key=key), visitor)

    def connected(self, row: Connection | None = None) -> Connection:
        row = self.connect(row or self.add())
        self.sign_in(row)
        return self.settled(row, State.CONNECTED)

    def settled(self, row: Connection, state: State) -> Connection:
        def check() -> bool:
            row.refresh_from_db()
            if row.state == State.CONNECTING.value:
                self.stack.try_open(row)
            return row.state == state.value

        eventually(check, 10.0, f"the connection is {state.value}")
        return row

    def view(self, row: Connection) -> selectors.ServerView:
        return selectors.server_for(self.person.principal, row.slug)

    def age(self, row: Connection, by: timedelta = timedelta(hours=2)) -> None:
        """Let the access token end, here and at the server."""
        self.server.end_access_tokens()
        grant = Grant.unscoped.get(subject_key=row.pk)
        Grant.unscoped.filter(pk=grant.pk).update(
            issued_at=grant.issued_at - by, expires_at=(grant.expires_at or grant.issued_at) - by
        )


@pytest.fixture
def oauth_desk(transactional_db: None, redis: Redis, world: World) -> Iterator[Desk]:
    with running_worker() as stack, ProtectedMcp() as server:
        yield Desk(stack, server, world.alice)
