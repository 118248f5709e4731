"""Means: how a flow reaches the network and the database from an event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from mcphub.core.clock import Deadline
from mcphub.core.egress import BufferedResponse, EgressClient, EgressRequest, policy_from_settings
from mcphub.core.offload import DatabaseThreads
from oauth.errors import AuthTemporarilyUnavailableError

DISCOVERY_BYTES = 256 << 10
DISCOVERY_SECONDS = 10.0
ANSWER_BYTES = 64 << 10
ANSWER_SECONDS = 15.0
MOST_REQUESTS = 8
FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class Means:
    """The loop's guarded HTTP client and its database threads; the caller owns both."""

    http: EgressClient
    database: DatabaseThreads


@asynccontextmanager
async def open_means() -> AsyncIterator[Means]:
    """Give means of their own to work that has no session host around it: views, tasks."""
    means = Means(EgressClient(policy_from_settings()), DatabaseThreads(name="oauth", threads=1))
    try:
        yield means
    finally:
        await means.http.aclose()
        means.database.close()


class Errand:
    """The requests of one flow, counted: a hostile chain of documents ends at 8."""

    def __init__(self, http: EgressClient) -> None:
        self.http = http
        self._left = MOST_REQUESTS

    async def get(self, url: str, **headers: str) -> BufferedResponse:
        """Fetch a metadata document. Raises HubError of the egress tree."""
        return await self._send(
            EgressRequest(
                method="GET",
                url=url,
                headers={"Accept": "application/json", **headers},
                deadline=Deadline.after(DISCOVERY_SECONDS),
                max_bytes=DISCOVERY_BYTES,
            )
        )

    async def post(
        self, url: str, content: bytes, *, headers: dict[str, str], kind: str = FORM
    ) -> BufferedResponse:
        """Send a form or JSON; never follows a redirect. Raises HubError of the egress tree."""
        return await self._send(
            EgressRequest(
                method="POST",
                url=url,
                headers={"Accept": "application/json", "Content-Type": kind, **headers},
                content=content,
                deadline=Deadline.after(ANSWER_SECONDS),
                max_bytes=ANSWER_BYTES,
                may_redirect=False,
            )
        )

    async def _send(self, request: EgressRequest) -> BufferedResponse:
        if self._left <= 0:
            raise AuthTemporarilyUnavailableError(
                "Signing in at this server takes more requests than a flow may make."
            )
        self._left -= 1
        return await self.http.fetch(request)
