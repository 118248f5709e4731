"""AuthorizedClient: the guarded client of one session whose requests carry a grant's token."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Protocol

from mcphub.core.crypto import Secret
from mcphub.core.egress import EgressClient, EgressRequest, EgressResponse
from oauth.errors import GrantLostError

MOST_REJECTED = 2
"""After so many tokens that were refused for one request, its last answer counts."""


class TokenSource(Protocol):
    async def __call__(self, *, rejected: str | None = None) -> Secret:
        """Return a token to send, newer than `rejected`.

        Raises GrantLostError (a person is needed), AuthTemporarilyUnavailableError.
        """


class AuthorizedClient(EgressClient):
    """Shares the pool of `inner`.

    A request that is answered with 401 was not processed: it is sent again with a newer token.
    Without a grant it goes out bare, for the server's challenge.
    """

    def __init__(self, inner: EgressClient, tokens: TokenSource) -> None:
        self._inner = inner
        self._tokens = tokens
        self._has_sent_token = False

    @asynccontextmanager
    async def stream(self, request: EgressRequest) -> AsyncIterator[EgressResponse]:
        token = await self._first_token()
        for _ in range(MOST_REJECTED):
            if token is None:
                break
            async with AsyncExitStack() as stack:
                response = await stack.enter_async_context(
                    self._inner.stream(_with_token(request, token))
                )
                if response.status != 401:
                    yield response
                    return
                challenge = response.headers.get("www-authenticate", "")
                await response.drain()
            token = await self._newer_token(token, challenge)
        sent = request if token is None else _with_token(request, token)
        async with self._inner.stream(sent) as response:
            yield response

    async def aclose(self) -> None:
        """Do nothing: the pool belongs to the host."""

    async def _first_token(self) -> Secret | None:
        """Return the current token; None before the first one, when nobody has signed in."""
        try:
            token = await self._tokens()
        except GrantLostError:
            if self._has_sent_token:
                raise
            return None
        self._has_sent_token = True
        return token

    async def _newer_token(self, rejected: Secret, challenge: str) -> Secret:
        try:
            return await self._tokens(rejected=rejected.value)
        except GrantLostError as exc:
            exc.challenge, exc.http_status = challenge, 401
            raise


def _with_token(request: EgressRequest, token: Secret) -> EgressRequest:
    kept = {name: value for name, value in request.headers.items() if name != "authorization"}
    return replace(request, headers={**kept, "authorization": f"Bearer {token.value}"})
