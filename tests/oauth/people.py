"""What a person does to sign in, and what a worker does with the outcome."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import httpx

from mcphub.core.sealing import unseal
from oauth import bearer, flows
from oauth.flows import Begun, Callback, Completed, Start
from oauth.means import Means
from oauth.models import AuthorizationRequest, ClientRegistration, Grant, RefreshJournal
from oauth.records.requests import Visitor
from oauth.records.time import database_now
from oauth.server_auth import ServerAuth
from tests.fakes.auth_server import AuthServer
from tests.world import Person

REDIRECT = "http://127.0.0.1:8000/oauth/callback"
BROWSER = "browser-secret-of-alice"


@dataclass
class Desk:
    """One connection of one person; every step can be taken alone."""

    server: AuthServer
    means: Means
    person: Person
    subject_key: uuid.UUID = field(default_factory=uuid.uuid4)
    options: dict[str, Any] = field(default_factory=dict)
    """Of ServerAuth, for every step."""

    @property
    def auth(self) -> ServerAuth:
        return ServerAuth(**{"server_url": self.server.mcp_url, **self.options})

    @property
    def visitor(self) -> Visitor:
        return Visitor(user_id=self.person.user.pk, browser_keys=(BROWSER,))

    def start(self, **more: Any) -> Start:
        given = {"browser": BROWSER, "challenge": self.server.challenge, **more}
        return Start(subject_key=self.subject_key, auth=self.auth, redirect_uri=REDIRECT, **given)

    async def begin(self, **more: Any) -> Begun:
        return await flows.begin(self.means, self.person.principal, self.start(**more))

    async def complete(self, answer: dict[str, str], visitor: Visitor | None = None) -> Completed:
        return await flows.complete(self.means, callback_of(answer), visitor or self.visitor)

    async def sign_in(self, **more: Any) -> Completed:
        begun = await self.begin(**more)
        return await self.complete(self.server.sign_in(begun.authorization_url))

    async def token(self, rejected: str | None = None) -> str:
        secret = await bearer.access_token(self.means, self.subject_key, rejected=rejected)
        return secret.value

    async def call(self, tool: str = "read") -> httpx.Response:
        """Call as a session host does: one newer token after a 401, one repetition."""
        token = await self.token()
        answer = await self.means.database.run(self.server.call, token, tool)
        if answer.status_code != 401:
            return answer
        token = await self.token(rejected=token)
        return await self.means.database.run(self.server.call, token, tool)

    async def grant(self) -> Grant:
        return await Grant.unscoped.aget(subject_key=self.subject_key)

    async def expire(self) -> None:
        """Let the access token end, here and at the server."""
        self.server.end_access_tokens()
        await self.age(timedelta(hours=2))

    async def age(self, by: timedelta) -> None:
        """Let time pass for the grant."""
        grant = await self.grant()
        await Grant.unscoped.filter(pk=grant.pk).aupdate(
            issued_at=grant.issued_at - by,
            expires_at=grant.expires_at - by if grant.expires_at else None,
            next_attempt_at=grant.next_attempt_at - by if grant.next_attempt_at else None,
            refresh_until=grant.refresh_until - by if grant.refresh_until else None,
        )
        bearer.forget(self.subject_key)

    async def age_request(self, by: timedelta = timedelta(minutes=11)) -> None:
        """Let time pass for what waits for a person."""
        now = await self.means.database.run(database_now)
        await AuthorizationRequest.unscoped.filter(subject_key=self.subject_key).aupdate(
            expires_at=now + timedelta(minutes=10) - by
        )

    async def journal(self) -> list[str]:
        rows = RefreshJournal.unscoped.filter(grant__subject_key=self.subject_key)
        return [row.outcome async for row in rows.order_by("id")]

    async def registrations(self) -> list[ClientRegistration]:
        return [row async for row in ClientRegistration.unscoped.order_by("id")]

    async def kept_refresh_token(self) -> str | None:
        secret = unseal(await self.grant(), "sealed_refresh_token")
        return secret.value if secret else None


def callback_of(answer: dict[str, str]) -> Callback:
    return Callback(
        state=answer["state"],
        code=answer.get("code", ""),
        iss=answer.get("iss"),
        error=answer.get("error", ""),
    )
