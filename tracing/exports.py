"""The trace as a file: JSON, NDJSON or HAR 1.2, written piece by piece; pure."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from mcphub import __version__
from mcphub.core.types import JSONObject, JSONValue
from tracing import rows
from tracing.models import Direction, MessageType


class Format(StrEnum):
    JSON = "json"
    NDJSON = "ndjson"
    HAR = "har"

    @property
    def content_type(self) -> str:
        return "application/x-ndjson" if self is Format.NDJSON else "application/json"


class Writer(Protocol):
    """Turns rows, oldest first, into pieces of a file."""

    head: str

    def pieces(self, row: rows.Row) -> Iterable[str]: ...
    def tail(self) -> Iterable[str]: ...


class NdjsonWriter:
    head = ""

    def pieces(self, row: rows.Row) -> Iterable[str]:
        yield _dump(rows.wire(row)) + "\n"

    def tail(self) -> Iterable[str]:
        return ()


class _ListWriter:
    """A JSON document that ends in one list."""

    head = "["
    foot = "]\n"

    def __init__(self) -> None:
        self._separator = "\n"

    def _item(self, value: JSONObject) -> str:
        separator, self._separator = self._separator, ",\n"
        return separator + _dump(value)


class JsonWriter(_ListWriter):
    def pieces(self, row: rows.Row) -> Iterable[str]:
        yield self._item(rows.wire(row))

    def tail(self) -> Iterable[str]:
        yield self.foot


class HarWriter(_ListWriter):
    """One entry per request with its answer; what has no answer gets status 0 (HAR 1.2).

    MCP has no URL per message: `mcp://{server}/{method}` upward, `mcp://mcphub/{method}` for what
    the server asked of us.
    """

    head = (
        '{"log":{"version":"1.2","creator":'
        + json.dumps({"name": "mcphub", "version": __version__})
        + ',"entries":['
    )
    foot = "]}}\n"

    def __init__(self) -> None:
        super().__init__()
        self._asked: dict[tuple[object, ...], rows.Row] = {}

    def pieces(self, row: rows.Row) -> Iterable[str]:
        if row.type == MessageType.REQUEST:
            replaced = self._asked.pop(_key(row), None)
            if replaced is not None:
                yield self._item(_entry(replaced, None))
            self._asked[_key(row)] = row
        elif row.type in {MessageType.RESPONSE, MessageType.ERROR}:
            yield self._item(_entry(self._asked.pop(_key(row), None), row))
        else:
            yield self._item(_entry(row, None))

    def tail(self) -> Iterable[str]:
        for row in self._asked.values():
            yield self._item(_entry(row, None))
        yield self.foot


WRITERS: dict[Format, Callable[[], Writer]] = {
    Format.JSON: JsonWriter,
    Format.NDJSON: NdjsonWriter,
    Format.HAR: HarWriter,
}


async def file_of(kind: Format, chunks: AsyncIterator[list[rows.Row]]) -> AsyncIterator[str]:
    """Yield the file; memory is one chunk and, for HAR, the requests without an answer."""
    writer = WRITERS[kind]()
    yield writer.head
    async for chunk in chunks:
        yield "".join(piece for row in chunk for piece in writer.pieces(row))
    yield "".join(writer.tail())


def _key(row: rows.Row) -> tuple[object, ...]:
    """Return what a request and its answer share."""
    is_answer = row.type != MessageType.REQUEST
    went_up = (row.direction == Direction.SENT) is not is_answer
    return row.server, row.call_id, row.attempt, row.rpc_id, went_up


def _entry(request: rows.Row | None, answer: rows.Row | None) -> JSONObject:
    seen = request or answer
    if seen is None:
        raise ValueError("an entry needs a message")
    http = rows.http_of(answer) if answer else {}
    waited = _waited(request, answer)
    began = seen.at if request else seen.at - timedelta(milliseconds=waited)
    went_up = (seen.direction == Direction.SENT) is (request is not None)
    host = seen.server if went_up else "mcphub"
    return {
        "startedDateTime": began.isoformat(timespec="milliseconds"),
        "time": waited,
        "request": {
            "method": "POST",
            "url": f"mcp://{host}/{seen.method}",
            **_common(request, http, "requestHeaders"),
            "queryString": [],
            "postData": {
                "mimeType": "application/json",
                "text": request.content if request else "",
            },
        },
        "response": {
            "status": http.get("status", 200 if answer else 0),
            "statusText": "",
            **_common(answer, http, "responseHeaders"),
            "content": {
                "size": answer.size if answer else 0,
                "mimeType": "application/json",
                "text": answer.content if answer else "",
            },
            "redirectURL": "",
        },
        "cache": {},
        "timings": {"send": 0, "wait": waited, "receive": 0},
        "comment": " ".join(str(row.id) for row in (request, answer) if row),
    }


def _common(row: rows.Row | None, http: JSONObject, headers: str) -> JSONObject:
    found = http.get(headers)
    pairs = found.items() if isinstance(found, dict) else ()
    return {
        "httpVersion": "",
        "cookies": [],
        "headers": [{"name": name, "value": value} for name, value in pairs],
        "headersSize": -1,
        "bodySize": row.size if row else -1,
    }


def _waited(request: rows.Row | None, answer: rows.Row | None) -> float:
    if answer is None:
        return 0.0
    if answer.duration_ms is not None:
        return round(answer.duration_ms, 3)
    return max(0.0, (answer.at - request.at).total_seconds() * 1000) if request else 0.0


def _dump(value: JSONValue) -> str:
    return json.dumps(value, separators=(",", ":"))
