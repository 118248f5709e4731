"""Streams of the gateway as a test reads them: event by event, each wait bounded by the client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.gateway.hub import Legacy, Modern, modern_body, modern_headers

STREAM = {"accept": "text/event-stream"}


class Stream:
    """One open stream, read event by event."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.iter_lines()

    def next(self) -> tuple[str, str]:
        """Return name and data of the next event; comments are passed over."""
        name = ""
        for line in self._lines:
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                return name, line.removeprefix("data: ")
        return "", ""

    def message(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.next()[1])
        return found

    def has_ended(self) -> bool:
        return self.next() == ("", "")


@contextmanager
def opened(client: httpx.Client, path: str, headers: dict[str, str]) -> Iterator[Stream]:
    with client.stream("GET", path, headers={**STREAM, **headers}) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["x-accel-buffering"] == "no"
        yield Stream(response)


@contextmanager
def hearing(client: Legacy) -> Iterator[Stream]:
    """Open the stream of a session."""
    with opened(client.client, client.path, {**client.headers, **STREAM}) as stream:
        yield stream


@contextmanager
def listening(
    client: Modern, wanted: dict[str, Any], *, subscription: int | str = "sub 1"
) -> Iterator[Stream]:
    """Open a subscription; its acknowledgement is the first message."""
    body = modern_body("subscriptions/listen", {"notifications": wanted}, id=subscription)
    headers = modern_headers("subscriptions/listen")
    with client.client.stream("POST", client.path, json=body, headers=headers) as response:
        yield Stream(response)
