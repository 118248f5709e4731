"""What both eras of the client have in common."""

from __future__ import annotations

import asyncio
import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx

from mcphub.core.types import JSONObject, JSONValue

SECONDS = 20.0
Question = Callable[[str, JSONObject], JSONObject]
STREAMING = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


@dataclass(kw_only=True)
class Reply:
    """What came back for one request."""

    result: JSONObject | None = None
    error: JSONObject | None = None
    notes: list[JSONObject] = field(default_factory=list)
    """Notifications on the stream of the request, in order."""
    questions: list[JSONObject] = field(default_factory=list)
    """What was asked meanwhile, as method and params."""

    @property
    def found(self) -> JSONObject:
        """The result of a request that must not fail."""
        self.expect()
        return self.result or {}

    def expect(self) -> None:
        """Fail when the request did."""
        assert self.result is not None, self.error


class Notices:
    """Notifications that no request asked for, in order of arrival."""

    def __init__(self) -> None:
        self.all: list[JSONObject] = []
        self._arrived = asyncio.Condition()

    async def put(self, message: JSONObject) -> None:
        async with self._arrived:
            self.all.append(message)
            self._arrived.notify_all()

    async def first(self, method: str, seconds: float, start: int = 0) -> JSONObject | None:
        """Return the params of the first one of `method` since `start`; None when none comes."""

        def find() -> JSONObject | None:
            return next((note for note in self.all[start:] if note["method"] == method), None)

        try:
            async with asyncio.timeout(seconds), self._arrived:
                await self._arrived.wait_for(lambda: find() is not None)
        except TimeoutError:
            return None
        note = find()
        params = note.get("params") if note else None
        return params if isinstance(params, dict) else {}


@dataclass(kw_only=True)
class Filter:
    """What a client wants to hear of besides the answers to its requests."""

    lists: bool = True
    uris: tuple[str, ...] = ()
    task_ids: tuple[str, ...] = ()


class McpClient(ABC):
    """A client of one era; `answer` is asked what the server asks."""

    era = ""
    revision = ""

    def __init__(
        self, url: str, token: str, capabilities: JSONObject, answer: Question | None = None
    ) -> None:
        self.url = url
        self.capabilities = capabilities
        self.notices = Notices()
        self.opening: JSONObject = {}
        self._answer = answer
        self._ids = itertools.count(1)
        headers = {**STREAMING, "Authorization": f"Bearer {token}"}
        timeout = httpx.Timeout(SECONDS, read=SECONDS)
        self.http = httpx.AsyncClient(headers=headers, timeout=timeout, trust_env=False)
        self._streams: set[asyncio.Task[None]] = set()

    # --- of an era

    @abstractmethod
    async def open(self) -> None:
        """Fill `opening` with what the server says of itself."""

    @abstractmethod
    async def request(
        self, method: str, params: JSONObject | None = None, **meta: JSONValue
    ) -> Reply:
        """Send one request, answer what is asked meanwhile, return what came back."""

    @abstractmethod
    async def listen(self, wanted: Filter) -> None:
        """Have what is `wanted` put into `notices`."""

    @abstractmethod
    async def unlisten(self, uris: Sequence[str]) -> None:
        """Hear no more of these resources."""

    @abstractmethod
    async def cancel_after(self, method: str, params: JSONObject, when: asyncio.Event) -> None:
        """Send a request, and cancel it when told."""

    # --- of both

    @property
    def server_capabilities(self) -> JSONObject:
        found = self.opening.get("capabilities")
        return found if isinstance(found, dict) else {}

    async def every(self, method: str, key: str) -> list[JSONObject]:
        """Return the entries of all pages of a list."""
        found: list[JSONObject] = []
        params: JSONObject = {}
        while True:
            page = (await self.request(method, dict(params))).found
            entries = page[key]
            assert isinstance(entries, list)
            found += [entry for entry in entries if isinstance(entry, dict)]
            if not page.get("nextCursor"):
                return found
            params = {"cursor": page["nextCursor"]}

    async def call(
        self, name: str, arguments: JSONObject | None = None, **meta: JSONValue
    ) -> Reply:
        return await self.request(
            "tools/call", {"name": name, "arguments": arguments or {}}, **meta
        )

    def answer(self, method: str, params: JSONObject) -> JSONObject:
        assert self._answer is not None, f"asked {method} without having offered it"
        return self._answer(method, params)

    def stream(self, work: asyncio.Task[None]) -> None:
        self._streams.add(work)

    async def end_streams(self) -> None:
        for task in self._streams:
            task.cancel()
        await asyncio.gather(*self._streams, return_exceptions=True)
        self._streams.clear()

    async def aclose(self) -> None:
        await self.end_streams()
        await self.http.aclose()


async def events(response: httpx.Response) -> AsyncIterator[JSONObject]:
    """Return the JSON messages of a body: server-sent events, or one JSON document."""
    if "text/event-stream" not in response.headers.get("content-type", ""):
        body = await response.aread()
        if body:
            yield json.loads(body)
        return
    data: list[str] = []
    async for line in lines(response):
        if line.startswith("data:"):
            data.append(line.removeprefix("data:").removeprefix(" "))
        elif not line and data:
            text = "\n".join(data)
            data = []
            if text:
                yield json.loads(text)


async def lines(response: httpx.Response) -> AsyncIterator[str]:
    """Return lines as event streams have them; httpx also splits at U+2028 and its like."""
    rest = b""
    async for part in response.aiter_bytes():
        *whole, rest = (rest + part).split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r").decode()


@asynccontextmanager
async def opened(client: McpClient) -> AsyncIterator[McpClient]:
    try:
        await client.open()
        yield client
    finally:
        await client.aclose()


def headers_of(extra: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in extra.items() if value is not None}
