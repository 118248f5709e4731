"""Listings: one bad item never hides the others, and no listing is endless (failure log F, P07)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from connectors.upstream.session import Opened, Session, UpstreamRequest
from connectors.upstream.wire import Caps, list_all, split_listing
from mcphub.core.clock import Deadline
from mcphub.core.errors import ProtocolError, UpstreamError
from mcphub.core.types import JSONObject, JSONValue

Page = Callable[[str | None], JSONObject]
OBJECT: JSONObject = {"type": "object"}


def tool(name: JSONValue, schema: JSONValue = None, **fields: JSONValue) -> JSONObject:
    return {"name": name, "inputSchema": OBJECT if schema is None else schema, **fields}


def nested(depth: int) -> JSONValue:
    value: JSONValue = "end"
    for _ in range(depth):
        value = {"type": "object", "items": value}
    return value


BAD_TOOLS: dict[str, tuple[JSONValue, str]] = {
    "F01 anyOf": (tool("bad", {"anyOf": []}), "input_schema_type_not_object"),
    "F01 string": (tool("bad", {"type": "string"}), "input_schema_type_not_object"),
    "F02 null": ({"name": "bad", "inputSchema": None}, "input_schema_missing"),
    "F02 missing": ({"name": "bad"}, "input_schema_missing"),
    "list": (tool("bad", []), "input_schema_not_an_object"),
    "deep": (tool("bad", nested(70)), "nested_too_deep"),
    "large": (tool("bad", {**OBJECT, "x": "y" * (256 << 10)}), "input_schema_too_large"),
    "P10 annotation": (
        tool("bad", {**OBJECT, "properties": {"a": {"x-mcp-header": "a b", "type": "string"}}}),
        "header_annotation_invalid",
    ),
    "no object": ("bad", "not_an_object"),
    "no name": (tool(None), "name_missing"),
    "number as name": (tool(5), "name_missing"),
    "long name": (tool("n" * 2000), "name_too_long"),
    "duplicate": (tool("good3"), "duplicate_name"),
}


@pytest.mark.parametrize(("bad", "reason"), BAD_TOOLS.values(), ids=BAD_TOOLS.keys())
def test_f01_f02_f17_one_bad_tool_is_named_with_its_reason_and_hides_no_other(
    bad: JSONValue, reason: str
) -> None:
    good: list[JSONValue] = [tool(f"good{n}") for n in range(9)]
    items, problems = split_listing("tools/list", {"tools": [*good[:4], bad, *good[4:]]})
    assert items == good
    assert [(found["index"], found["reason"]) for found in problems] == [(4, reason)]


def test_f08_f09_f10_tools_keep_every_field_as_it_came() -> None:
    schema: JSONObject = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"a": {"type": "string"}},
        "properties": {"x": {"$ref": "#/$defs/a"}},
        "additionalProperties": False,
    }
    tools: list[JSONValue] = [
        tool("full", schema, outputSchema=schema, vendor=[1], _meta={"ui": {"resourceUri": "u"}}),
        tool("bare"),
    ]
    assert split_listing("tools/list", {"tools": tools}) == (tools, [])


def test_long_description_is_flagged_and_not_cut() -> None:
    long = tool("long", description="d" * (17 << 10))
    items, problems = split_listing("tools/list", {"tools": [long]})
    assert items == [long]
    assert problems == [{"index": 0, "name": "long", "reason": "flag:description_too_long"}]


@pytest.mark.parametrize(
    ("method", "key", "item"),
    [
        ("resources/list", "resources", {"uri": "a://b", "name": "n"}),
        ("resources/templates/list", "resourceTemplates", {"uriTemplate": "a://{b}"}),
        ("prompts/list", "prompts", {"name": "p"}),
    ],
)
def test_other_listings_are_read_item_by_item_too(method: str, key: str, item: JSONObject) -> None:
    items, problems = split_listing(method, {key: [item, 5, {}]})
    assert items == [item]
    assert [found["index"] for found in problems] == [1, 2]


@pytest.mark.parametrize("tools", [None, {}, "x"])
def test_listing_without_a_list_is_a_protocol_error(tools: JSONValue) -> None:
    with pytest.raises(UpstreamError) as caught:
        split_listing("tools/list", {"tools": tools})
    assert caught.value.problem_code == "protocol_error"


class Paged(Session):
    """Answers listings from a function of the cursor."""

    opened: Opened

    def __init__(self, page: Page) -> None:
        self._page = page
        self.asked: list[str | None] = []

    async def request(self, request: UpstreamRequest) -> JSONObject:
        cursor: Any = request.params.get("cursor")
        self.asked.append(cursor)
        return self._page(cursor)

    async def notify(self, method: str, params: JSONObject) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


async def names_of(session: Paged, caps: Caps | None = None) -> tuple[list[object], bool]:
    listing = await list_all(session, "tools/list", Deadline.after(5), caps)
    return [item["name"] for item in listing.items], listing.is_cut


def pages(**by_cursor: JSONObject) -> Page:
    return lambda cursor: by_cursor["start" if cursor is None else cursor or "empty"]


def page(*names: str, cursor: JSONValue = None) -> JSONObject:
    listed: list[JSONValue] = [tool(name) for name in names]
    return {"tools": listed, **({} if cursor is None else {"nextCursor": cursor})}


async def test_f07_all_pages_are_read() -> None:
    session = Paged(
        pages(start=page("a", cursor="2"), **{"2": page("b", cursor="3")}, **{"3": page("c")})
    )
    assert await names_of(session) == (["a", "b", "c"], False)
    assert session.asked == [None, "2", "3"]


async def test_f05_empty_cursor_is_a_cursor() -> None:
    session = Paged(pages(start=page("a", cursor=""), empty=page("b")))
    assert await names_of(session) == (["a", "b"], False)


async def test_f04_empty_cursor_on_every_page_is_asked_once() -> None:
    session = Paged(pages(start=page("a", cursor=""), empty=page("b", cursor="")))
    assert await names_of(session) == (["a", "b"], False)
    assert session.asked == [None, ""]


async def test_p07_endless_cursors_end_at_the_page_cap() -> None:
    session = Paged(lambda cursor: page(f"t{cursor}", cursor=f"{cursor}x"))
    _, is_cut = await names_of(session, Caps(pages=7))
    assert (len(session.asked), is_cut) == (7, True)


async def test_p07_five_thousand_tools_are_cut_at_the_tool_cap() -> None:
    session = Paged(pages(start=page(*(f"t{n}" for n in range(5000)))))
    names, is_cut = await names_of(session)
    assert (len(names), is_cut) == (2000, True)


async def test_p07_large_listing_ends_at_the_byte_cap() -> None:
    big = "d" * 1000
    session = Paged(
        lambda cursor: {"tools": [tool(f"t{cursor}", description=big)], "nextCursor": f"{cursor}x"}
    )
    names, is_cut = await names_of(session, Caps(size=3000))
    assert (len(names), is_cut) == (3, True)


async def test_cursor_that_the_server_forgot_restarts_the_listing_once() -> None:
    failures = iter([True, False])

    def forgetful(cursor: str | None) -> JSONObject:
        if cursor and next(failures):
            raise ProtocolError(rpc_code=-32602, rpc_message="bad cursor")
        return page("b") if cursor else page("a", cursor="2")

    session = Paged(forgetful)
    assert await names_of(session) == (["a", "b"], False)
    assert session.asked == [None, "2", None, "2"]


async def test_server_that_forgets_every_cursor_is_an_error() -> None:
    def hopeless(cursor: str | None) -> JSONObject:
        if cursor:
            raise ProtocolError(rpc_code=-32602, rpc_message="bad cursor")
        return page("a", cursor="2")

    with pytest.raises(ProtocolError):
        await names_of(Paged(hopeless))


@pytest.mark.parametrize("cursor", [5, True, [], {}])
async def test_cursor_that_is_no_text_is_none(cursor: JSONValue) -> None:
    assert await names_of(Paged(pages(start=page("a", cursor=cursor)))) == (["a"], False)
