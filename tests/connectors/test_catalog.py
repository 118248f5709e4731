"""The stored catalog: lists in full, tools with public names, and what changes when lists do."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from mcp_types import Tool
from redis import Redis

from connectors import events
from connectors.definitions import digest_of
from connectors.models import CatalogListing, CatalogTool, Connection, ListingKind
from connectors.services import catalog, connections, tool_table
from connectors.services.catalog import FetchedList
from mcphub.core.errors import NotFoundError
from mcphub.core.types import JSONObject, JSONValue
from tests.connectors import server_factories
from tests.connectors.session_stack import Stack, add_server, running_worker
from tests.fakes import raw_server
from tests.fakes.mcp_servers import Kind, running
from tests.fakes.raw_server import ECHO, RawServer, Request, Wire, serving_in_thread
from tests.waiting import eventually
from tests.world import World
from tracing.secrets import MARK

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "canary-7f3a91c2e4"
ODD: JSONObject = {
    "name": "odd.tool",
    "inputSchema": {"type": "object"},
    "x-unknown": {"kept": [None, 1.5]},
    "_meta": {"a/b": True},
}


@pytest.fixture
def stack(transactional_db: None, redis: Redis) -> Iterator[Stack]:
    with running_worker() as stack:
        yield stack


@pytest.fixture
def row(world: World) -> Connection:
    return server_factories.make_custom(world.alice, "linear")


def tool(name: str, **fields: JSONValue) -> JSONObject:
    return {"name": name, "inputSchema": {"type": "object"}, **fields}


def tools(*items: JSONObject, **fields: object) -> list[FetchedList]:
    return [FetchedList(kind=ListingKind.TOOLS, items=items, **fields)]  # type: ignore[arg-type]  # a test's fields


class Listing(RawServer):
    """Its list of tools is `tools_now`; counts how often it is asked."""

    tools_now: list[JSONValue] = [ECHO]

    async def on_list_tools(self, request: Request, wire: Wire) -> None:
        await wire.answer(raw_server.result(request.id, {"tools": self.tools_now}))


class Endless(RawServer):
    """Always has one more page."""

    async def on_list_tools(self, request: Request, wire: Wire) -> None:
        number = len(self.of("tools/list"))
        page: JSONObject = {"tools": [tool(f"t{number}")], "nextCursor": f"c{number}"}
        await wire.answer(raw_server.result(request.id, page))


class Broken(RawServer):
    """Declares tools and prompts, and can list neither."""

    capabilities = {"tools": {}, "prompts": {}}

    async def on_list_tools(self, request: Request, wire: Wire) -> None:
        await wire.answer(raw_server.error(request.id, -32603, "secret text"))


# --- what a server lists --------------------------------------------------------------------------


def test_one_bad_tool_is_listed_with_its_reason_and_hides_no_other(
    world: World, stack: Stack
) -> None:
    server = Listing()
    server.tools_now = [ECHO, {"name": "broken", "inputSchema": 7}, 3, ODD, ECHO]
    with serving_in_thread(server):
        row = stack.connect(world.alice.principal, add_server(world.alice.principal, server.url))
    listing = row.listings.get(kind="tools")
    assert listing.items == [ECHO, ODD]
    assert listing.problems == [
        {"index": 1, "name": "broken", "reason": "input_schema_not_an_object"},
        {"index": 2, "name": "", "reason": "not_an_object"},
        {"index": 4, "name": "echo", "reason": "duplicate_name"},
    ]
    assert row.state == "connected"
    assert dict(row.tools.values_list("name", "public_name")) == {
        "echo": f"{row.slug}__echo",
        "odd.tool": f"{row.slug}__odd_tool",
    }


def test_five_thousand_tools_are_cut_at_the_cap(world: World, stack: Stack) -> None:
    server = Listing()
    server.tools_now = [tool(f"t{number}") for number in range(5000)]
    with serving_in_thread(server):
        row = stack.connect(world.alice.principal, add_server(world.alice.principal, server.url))
    listing = row.listings.get(kind="tools")
    assert (row.tools.count(), len(listing.items), listing.is_complete) == (2000, 2000, False)
    assert listing.problems == [{"index": 2000, "name": "", "reason": "listing_cut"}]


def test_an_endless_cursor_ends_at_the_cap(world: World, stack: Stack) -> None:
    with serving_in_thread(Endless()) as server:
        row = stack.connect(world.alice.principal, add_server(world.alice.principal, server.url))
        assert server.counts["POST tools/list"] == 50
    assert (row.state, row.tools.count()) == ("connected", 50)
    assert not row.listings.get(kind="tools").is_complete


def test_a_list_that_fails_is_an_error_of_that_list_alone(world: World, stack: Stack) -> None:
    with serving_in_thread(Broken()) as server:
        row = stack.connect(world.alice.principal, add_server(world.alice.principal, server.url))
    assert row.state == "connected"
    listing = row.listings.get(kind="tools")
    assert "protocol_error" in str(listing.error)
    assert "secret" not in str(listing.error)
    assert row.listings.get(kind="prompts").error is None


def test_only_declared_lists_are_asked_for(world: World, stack: Stack) -> None:
    with serving_in_thread(RawServer()) as server:
        row = stack.connect(world.alice.principal, add_server(world.alice.principal, server.url))
    assert list(row.listings.values_list("kind", flat=True)) == ["tools"]
    assert server.counts["POST prompts/list"] == 0


# --- changes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Kind.LEGACY, Kind.MODERN])
def test_list_changed_refreshes_the_catalog(world: World, stack: Stack, kind: Kind) -> None:
    with running(kind) as server:
        row = stack.connect(world.alice.principal, add_server(world.alice.principal, server.url))
        before = row.catalog_version
        server.demo.extra_tools.append(Tool(name="late", input_schema={"type": "object"}))

        def has_new_tool() -> bool:
            server.announce_tools_changed()
            return row.tools.filter(name="late").exists()

        eventually(has_new_tool, what="the new tool is stored")
    row.refresh_from_db()
    assert row.catalog_version > before


def test_a_burst_of_list_changed_reads_the_list_once_per_period(world: World, stack: Stack) -> None:
    """E29."""
    with serving_in_thread(RawServer()) as server:
        row = stack.connect(world.alice.principal, add_server(world.alice.principal, server.url))
        keeper, host = stack.worker.keeper, stack.worker.host

        async def burst() -> None:
            key = host.key_of(row.pk)
            assert key is not None
            for _ in range(1000):
                keeper.on_notification(key, "notifications/tools/list_changed", {}, None)

        host.run(burst(), 5)
        eventually(lambda: server.counts["POST tools/list"] >= 2, what="the list is read")
        host.run(burst(), 5)
        eventually(lambda: server.counts["POST tools/list"] >= 3, what="the list is read again")
        assert server.counts["POST tools/list"] == 3


def test_changes_of_tools_are_told_by_name(row: Connection) -> None:
    catalog.store(row.pk, tools(tool("a"), tool("b"), tool("c")))
    changes = catalog.store(row.pk, tools(tool("b"), tool("c", description="new"), tool("d")))
    assert changes == events.ToolChanges(added=("d",), changed=("c",), removed=("a",))
    back = catalog.store(row.pk, tools(tool("a"), tool("b"), tool("c"), tool("d")))
    assert back == events.ToolChanges(added=("a",), changed=("c",), removed=())
    row.refresh_from_db()
    assert row.catalog_version == 3


def test_the_same_list_again_changes_nothing(row: Connection) -> None:
    catalog.store(row.pk, tools(tool("a")))
    assert catalog.store(row.pk, tools(tool("a"))) == events.ToolChanges()
    row.refresh_from_db()
    assert row.catalog_version == 1


def test_a_tool_that_goes_and_comes_keeps_its_public_name_and_its_switch(
    row: Connection, world: World
) -> None:
    catalog.store(row.pk, tools(tool("a.b"), tool("a/b")))
    names = dict(row.tools.values_list("name", "public_name"))
    tool_table.set_enabled(world.alice.principal, row, "a.b", is_enabled=False)
    catalog.store(row.pk, tools(tool("a/b")))
    assert list(row.tools.filter(is_listed=True).values_list("name", flat=True)) == ["a/b"]
    catalog.store(row.pk, tools(tool("a_b"), tool("a.b"), tool("a/b")))
    after = {each.name: each for each in row.tools.all()}
    assert {name: after[name].public_name for name in names} == names
    assert (after["a.b"].is_enabled, after["a/b"].is_enabled) == (False, True)
    assert after["a_b"].public_name == "linear__a_b"


def test_a_cut_list_says_nothing_about_the_tools_behind_the_cut(row: Connection) -> None:
    catalog.store(row.pk, tools(tool("a"), tool("b")))
    changes = catalog.store(row.pk, tools(tool("a"), is_complete=False))
    assert changes == events.ToolChanges()
    assert row.tools.filter(is_listed=True).count() == 2


def test_a_failed_refresh_keeps_what_was_known(row: Connection) -> None:
    catalog.store(row.pk, tools(tool("a")))
    catalog.store(row.pk, tools(error={"code": "timeout"}))
    listing = CatalogListing.unscoped.get(connection=row)
    assert (listing.items, listing.error) == ([tool("a")], {"code": "timeout"})
    catalog.store(row.pk, tools(tool("a")))
    listing.refresh_from_db()
    assert listing.error is None


def test_the_digest_covers_the_definition_and_nothing_else() -> None:
    one = tool("a", description="x", title="A", _meta={"n": 1})
    same: JSONObject = {"description": "x", "inputSchema": {"type": "object"}, "name": "a"}
    assert digest_of(one) == digest_of(same)
    others = [
        tool("b", description="x"),
        tool("a", description="y"),
        tool("a", description="x", annotations={"readOnlyHint": True}),
        tool("a", description="x", outputSchema={}),
    ]
    assert len({digest_of(each) for each in [one, *others]}) == 5


def test_characters_that_no_database_stores_are_replaced(row: Connection) -> None:
    catalog.store(row.pk, tools(tool("a", description="x\0y\ud800z", title="\U0001f600")))
    item = CatalogListing.unscoped.get(connection=row).items[0]
    assert (item["description"], item["title"]) == ("x\ufffdy\ufffdz", "\U0001f600")


def test_a_name_too_long_to_keep_is_a_problem_of_that_tool(row: Connection) -> None:
    catalog.store(row.pk, tools(tool("a" * 501), tool("b")))
    listing = CatalogListing.unscoped.get(connection=row)
    assert listing.problems == [{"index": 0, "name": "a" * 500, "reason": "name_too_long"}]
    assert row.tools.get().name == "b"


def test_a_tool_of_a_stranger_cannot_be_switched(row: Connection, world: World) -> None:
    catalog.store(row.pk, tools(tool("a")))
    with pytest.raises(NotFoundError):
        tool_table.set_enabled(world.charlie.principal, row, "a", is_enabled=False)
    with pytest.raises(NotFoundError):
        tool_table.set_enabled(world.alice.principal, row, "b", is_enabled=False)
    assert CatalogTool.unscoped.get(connection=row).is_enabled


# --- a server that repeats its credential ---------------------------------------------------------


class Parrot(RawServer):
    """Repeats the token that it got wherever it can say something of itself."""

    capabilities = {"tools": {}, "prompts": {}, "logging": {"x": SECRET}}

    def initialize_result(self) -> JSONObject:
        return {
            **super().initialize_result(),
            "serverInfo": {"name": "parrot", "version": "1", "title": f"Bearer {SECRET}"},
            "instructions": f"Your token is {SECRET}.",
        }

    async def on_list_tools(self, request: Request, wire: Wire) -> None:
        odd = tool("a", description=f"token={SECRET}", **{f"x-{SECRET}": 1})
        items: list[JSONValue] = [odd, tool(SECRET), ECHO]
        await wire.answer(raw_server.result(request.id, {"tools": items}))

    async def on_call(self, request: Request, wire: Wire) -> None:
        await wire.open_stream()
        meta = request.params["_meta"]
        token = meta["progressToken"] if isinstance(meta, dict) else None
        progress: JSONObject = {"progressToken": token, "progress": 1, "message": SECRET}
        log: JSONObject = {"level": "info", "data": SECRET}
        await wire.event(raw_server.note("notifications/progress", progress))
        await wire.event(raw_server.note("notifications/message", log))
        await wire.event(raw_server.result(request.id, raw_server.text_result(SECRET)))


def test_no_secret_that_a_server_repeats_is_stored_or_announced(
    world: World, stack: Stack, redis: Redis
) -> None:
    principal = world.alice.principal
    with serving_in_thread(Parrot()) as server:
        row = add_server(principal, server.url, auth_type="bearer")
        row = connections.set_credentials(principal, row, {"token": SECRET})
        row = stack.connect(principal, row)
        heard: list[JSONObject] = []
        result = stack.call(row, "echo", on_progress=heard.append)
        eventually(lambda: any("call.log" in text for text in everything_in(redis)))
        stack.worker.host.run(stack.worker.keeper.refresh(row.pk, list(ListingKind)), 15.0)
    listing = row.listings.get(kind="tools")
    kept = [row.server_info, row.capabilities, row.instructions, listing.items, listing.problems]
    assert result is None
    assert [one["message"] for one in heard] == [MARK]
    assert SECRET not in json.dumps([*kept, *row.tools.values_list("name", "public_name")])
    assert not [text for text in everything_in(redis) if SECRET in text]
    assert row.instructions == f"Your token is {MARK}."
    assert [item["name"] for item in listing.items] == ["a", "echo"]
    assert listing.items[1] == ECHO
    assert listing.problems == [{"index": 1, "name": MARK, "reason": "name_holds_secret"}]


def everything_in(redis: Redis) -> list[str]:
    streams = [key for key in redis.keys("*") if redis.type(key) == b"stream"]
    return [repr(entry) for key in streams for entry in redis.xrange(key) or ()]
