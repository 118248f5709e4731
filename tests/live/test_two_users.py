"""Two members of one tenant on one hub, at the same servers: nothing of the other ever arrives.

Both call, read, ask, subscribe and start tasks in a random order, several steps at a time, at a
server of each era that tells everybody the credential it was shown. `--interleavings` sets the
number of steps.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field

import pytest

from mcphub.core.types import JSONObject
from tests.fakes.relay.content import ME, NOTE
from tests.fakes.relay.server import RelayServer, serving_relay
from tests.live.api import EVERY_QUESTION, Api
from tests.live.newcomer import Newcomer, colleague_at
from tests.live.stack import RunningHub
from tests.mcp_client.base import Filter, McpClient
from tests.mcp_client.legacy import LegacyClient
from tests.relay_inventory.measure import CLIENTS, ERAS
from tests.relay_inventory.probe import CAPABLE
from tests.relay_inventory.route import Route

AT_ONCE = 12
UPDATED = "notifications/resources/updated"
CHANGED = "notifications/prompts/list_changed"
STEPS = ("call", "read", "ask", "update", "change", "steal_session", "start_task", "peek_task")


@dataclass(kw_only=True)
class Seat:
    """One member's client of one era at one server."""

    who: str
    route: Route
    tasks: list[str] = field(default_factory=list)

    @property
    def client(self) -> McpClient:
        return self.route.client

    async def call(self, other: Seat, nonce: str) -> None:
        reply = await self.client.call(
            self.route.tools["whoami"], {"q": nonce}, progressToken=nonce
        )
        assert reply.found["structuredContent"] == {"who": self.who, "q": nonce}
        for note in reply.notes:
            params = note["params"]
            assert isinstance(params, dict)
            assert (params["message"], params["progressToken"]) == (self.who, nonce)

    async def read(self, other: Seat, nonce: str) -> None:
        uri = self.route.uris["note://{id}"].replace("{id}", ME.removeprefix("note://"))
        found = (await self.client.request("resources/read", {"uri": uri})).found
        contents = found["contents"]
        assert isinstance(contents, list)
        assert isinstance(contents[0], dict)
        assert contents[0]["text"] == self.who

    async def ask(self, other: Seat, nonce: str) -> None:
        found = (await self.client.call(self.route.tools["ask_form"])).found
        told = found["structuredContent"]
        assert told == {"answers": {"who": answer_of(self.who)}}

    async def update(self, other: Seat, nonce: str) -> None:
        """The server tells this member alone that a resource has changed."""
        params: JSONObject = {"uri": NOTE, "_meta": {"who": self.who}}
        self.route.upstream.emit(UPDATED, params, who=self.who)

    async def change(self, other: Seat, nonce: str) -> None:
        """The server tells bob alone that its list has changed; alice must not hear of it."""
        self.route.upstream.emit(CHANGED, who="bob")

    async def steal_session(self, other: Seat, nonce: str) -> None:
        if not isinstance(self.client, LegacyClient):
            return
        assert isinstance(other.client, LegacyClient)
        headers = {
            "Mcp-Session-Id": str(other.client.session),
            "MCP-Protocol-Version": self.client.revision,
        }
        body: JSONObject = {"jsonrpc": "2.0", "id": nonce, "method": "tools/list", "params": {}}
        answer = await self.client.http.post(self.client.url, json=body, headers=headers)
        assert answer.status_code == 404, answer.text

    async def start_task(self, other: Seat, nonce: str) -> None:
        params: JSONObject = {"name": self.route.tools["job"], "arguments": {"q": nonce}}
        if self.client.era != ("modern" if self.route.upstream.is_modern else "legacy"):
            return  # tasks of the other era are not relayed
        if isinstance(self.client, LegacyClient):
            params["task"] = {"ttl": 60_000}
        found = (await self.client.request("tools/call", params)).found
        task = found.get("task", found)
        assert isinstance(task, dict)
        self.tasks.append(str(task["taskId"]))

    async def peek_task(self, other: Seat, nonce: str) -> None:
        if other.tasks:
            task: JSONObject = {"taskId": other.tasks[len(nonce) % len(other.tasks)]}
            for method in ("tasks/get", "tasks/cancel"):
                reply = await self.client.request(method, task)
                assert reply.result is None, reply.result
        if self.tasks:
            (await self.client.request("tasks/get", {"taskId": self.tasks[-1]})).expect()

    async def hears(self, method: str) -> bool:
        """Whether a notification arrives, or has."""
        return await self.route.until(lambda: self.heard()[method], 15.0)

    def heard(self) -> Counter[str]:
        """Whose notifications arrived; fails when one was not this member's own."""
        counts: Counter[str] = Counter()
        for note in self.client.notices.all:
            params = note["params"]
            assert isinstance(params, dict)
            counts[str(note["method"])] += 1
            if note["method"] == UPDATED:
                meta = params["_meta"]
                assert isinstance(meta, dict)
                assert meta["who"] == self.who
        return counts


def answer_of(who: str) -> JSONObject:
    return {"action": "accept", "content": {"name": who, "size": "s"}}


@pytest.fixture(scope="module")
def upstreams() -> Iterator[dict[str, RelayServer]]:
    with ExitStack() as exits:
        yield {era: exits.enter_context(serving_relay(is_modern=era == "modern")) for era in ERAS}


def connect(newcomer: Newcomer, who: str, upstreams: dict[str, RelayServer]) -> None:
    for era, upstream in upstreams.items():
        auth = {"type": "bearer", "token": who}
        Api(newcomer.http).connected(era, upstream.url, **{**EVERY_QUESTION, "auth": auth})


async def seat(url: str, newcomer: Newcomer, who: str, upstream: RelayServer, era: str) -> Seat:
    key = newcomer.api_key
    client = CLIENTS[era](url, key, CAPABLE[era], lambda method, params: answer_of(who))
    await client.open()
    route = Route(client=client, upstream=upstream)
    await route.learn_names()
    await client.listen(Filter(lists=True, uris=(route.uris[NOTE],)))
    return Seat(who=who, route=route)


async def interleave(pairs: list[tuple[Seat, Seat]], count: int, seed: int) -> Counter[str]:
    """Take random steps of random seats, several at a time; returns how often each was taken."""
    chance, taken = random.Random(seed), Counter[str]()
    left = iter(range(count))

    async def walk() -> None:
        for number in left:
            mine, other = chance.choice(pairs)
            if chance.random() < 0.5:
                mine, other = other, mine
            step = chance.choice(STEPS)
            taken[step] += 1
            await getattr(mine, step)(other, f"{mine.who}-{number}")

    await asyncio.gather(*(walk() for _ in range(AT_ONCE)))
    return taken


@pytest.mark.timeout(900)
def test_nothing_of_the_other_ever_arrives(
    stack: RunningHub,
    newcomer: Newcomer,
    upstreams: dict[str, RelayServer],
    pytestconfig: pytest.Config,
) -> None:
    members = {"alice": newcomer, "bob": colleague_at(stack, newcomer)}
    for who, member in members.items():
        connect(member, who, upstreams)
    count = pytestconfig.getoption("--interleavings")

    async def run() -> None:
        async with AsyncExitStack() as exits:
            pairs = []
            for server, upstream in upstreams.items():
                for era in ERAS:
                    url = f"{stack.url}/mcp/s/{server}"
                    alice = await seat(url, members["alice"], "alice", upstream, era)
                    exits.push_async_callback(alice.client.aclose)
                    bob = await seat(url, members["bob"], "bob", upstream, era)
                    exits.push_async_callback(bob.client.aclose)
                    pairs.append((alice, bob))
            taken = await interleave(pairs, count, seed=5)
            assert set(taken) == set(STEPS)
            await settle(pairs)

    asyncio.run(run())


async def settle(pairs: list[tuple[Seat, Seat]]) -> None:
    """After the last step: everybody has heard of their own, alice of no change of bob's."""
    for alice, bob in pairs:
        for mine in (alice, bob):
            await mine.update(mine, "")
            assert await mine.hears(UPDATED), mine.who
        assert await bob.hears(CHANGED)
        assert not alice.heard()[CHANGED]
