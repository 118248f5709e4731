"""One measured way from a client to the fixture: directly, to one server, through the aggregate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from mcphub.core.types import JSONObject, JSONValue
from tests.fakes.relay import content
from tests.fakes.relay.server import RelayServer
from tests.mcp_client.base import McpClient
from tests.waiting import becomes_true

WAIT_SECONDS = 4.0
ENVELOPE = {"resultType", "ttlMs", "cacheScope", "nextCursor"}
"""Fields of the protocol's envelope: each side of a relay has its own."""
ENVELOPE_META = ("io.modelcontextprotocol/serverInfo", "io.modelcontextprotocol/subscriptionId")
OWN_META = "mcphub/"
"""What the hub adds of its own is named so; everything else has to be the server's."""


@dataclass(kw_only=True)
class Route:
    """A client, the server at the other end, and how names are shown in between."""

    client: McpClient
    upstream: RelayServer
    is_aggregate: bool = False
    tools: dict[str, str] = field(default_factory=dict)
    prompts: dict[str, str] = field(default_factory=dict)
    uris: dict[str, str] = field(default_factory=dict)
    """From what the server says to what this client is shown."""

    async def learn_names(self) -> None:
        """Learn the names from lists, by titles and descriptions, as a reader would."""
        shown = await self.client.every("tools/list", "tools")
        self.tools = by_title(shown, "Tool ", "name")
        shown = await self.client.every("prompts/list", "prompts")
        self.prompts = by_title(shown, "Prompt ", "name")
        resources = await self.client.every("resources/list", "resources")
        own = {str(entry["name"]): entry["uri"] for entry in objects(content.resources())}
        self.uris = {
            str(own[str(entry["name"])]): str(entry["uri"])
            for entry in resources
            if str(entry["name"]) in own
        }
        templates = await self.client.every("resources/templates/list", "resourceTemplates")
        for entry in templates:
            if entry["name"] == "note":
                self.uris["note://{id}"] = str(entry["uriTemplate"])

    def own(self, value: JSONValue) -> JSONValue:
        """Return what a client got, with names and URIs as the server knows them."""
        back = {
            shown: own
            for names in (self.tools, self.prompts, self.uris)
            for own, shown in names.items()
        }
        return replaced(value, back)

    def cleaned(self, result: JSONObject) -> JSONObject:
        """Return a result or params without the envelope, in the server's names."""
        found = self.own(without_envelope(result))
        assert isinstance(found, dict)
        return found

    async def until(self, predicate: Callable[[], object], seconds: float = WAIT_SECONDS) -> bool:
        """Whether `predicate` becomes true in time."""
        return await becomes_true(predicate, seconds)


def without_envelope(result: JSONObject) -> JSONObject:
    found = {name: value for name, value in result.items() if name not in ENVELOPE}
    meta = found.get("_meta")
    if isinstance(meta, dict):
        found["_meta"] = {name: meta[name] for name in meta if name not in ENVELOPE_META}
        if not found["_meta"]:
            del found["_meta"]
    return found


def without_own_meta(entry: JSONObject) -> JSONObject:
    """Return an entry without what the hub added to its metadata."""
    meta = entry.get("_meta")
    if not isinstance(meta, dict) or not any(name.startswith(OWN_META) for name in meta):
        return entry
    kept = {name: value for name, value in meta.items() if not name.startswith(OWN_META)}
    others = {name: value for name, value in entry.items() if name != "_meta"}
    return {**others, "_meta": kept} if kept else others


def replaced(value: JSONValue, back: Mapping[str, str]) -> JSONValue:
    if isinstance(value, str):
        return back.get(value, value)
    if isinstance(value, list):
        return [replaced(entry, back) for entry in value]
    if isinstance(value, dict):
        value = without_own_meta(value)
        return {name: replaced(entry, back) for name, entry in value.items()}
    return value


def by_title(entries: list[JSONObject], prefix: str, key: str) -> dict[str, str]:
    found = {}
    for entry in entries:
        title = str(entry.get("title", ""))
        if title.startswith(prefix):
            found[title.removeprefix(prefix)] = str(entry[key])
    return found


def objects(entries: object) -> Iterator[JSONObject]:
    assert isinstance(entries, list)
    for entry in entries:
        assert isinstance(entry, dict)
        yield entry


def differences(expected: JSONValue, found: JSONValue, path: str = "") -> list[str]:
    """Return the places where two values differ."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return [
            place
            for name in sorted({*expected, *found})
            for place in (
                differences(expected[name], found[name], f"{path}/{name}")
                if name in expected and name in found
                else [f"{path}/{name} {'is lost' if name in expected else 'is added'}"]
            )
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [
            place
            for number, pair in enumerate(zip(expected, found, strict=True))
            for place in differences(*pair, path=f"{path}/{number}")
        ]
    same = type(expected) is type(found) and expected == found
    return [] if same else [f"{path or '/'} differs"]
