"""Refreshes race and their worker dies: R20, R22, R27, at a server that punishes every reuse."""

from __future__ import annotations

import secrets
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx

from chaos.processes import Program
from chaos.proxy import Mode
from chaos.runs.workers import replaced
from chaos.stack import WEBS, Stack
from chaos.verdict import run
from tests.fakes.auth_server import Answer
from tests.fakes.oauth_mcp import ProtectedMcp
from tests.live.api import Api
from tests.waiting import eventually

CLIENTS = 8
CALLS = 25
PATIENCE = 5
AGAIN_SECONDS = 90.0
TOKEN_LINK = "hub>tokens"
METADATA = "/.well-known/oauth-authorization-server/as"


@dataclass(slots=True, kw_only=True)
class Site:
    """A protected server that somebody is signed in at, through the stack."""

    stack: Stack
    server: ProtectedMcp
    slug: str
    api: Api

    @property
    def refreshes(self) -> int:
        return self.server.hits["refresh_token"]

    def expire(self) -> None:
        """End every access token at the server: the next call is answered with 401."""
        self.server.end_access_tokens()

    def holder(self) -> Program:
        name = eventually(lambda: self.stack.holder(self.slug), 30.0, "somebody holds the session")
        return self.stack.programs[name]

    def journal(self) -> list[str]:
        """What the refreshes of this grant have come to, in order."""
        statement = (
            "SELECT outcome FROM oauth_refreshjournal WHERE grant_id IN (SELECT g.id FROM "
            "oauth_grant g JOIN connectors_connection c ON c.id = g.subject_key "
            "WHERE c.slug = %s) ORDER BY id"
        )
        return [row[0] for row in self.stack.sql(statement, self.slug)]

    def call(self) -> tuple[int, str]:
        answer = self.api.call(self.slug, "read")
        code = answer.json().get("code", "") if answer.status_code != 200 else ""
        return answer.status_code, str(code)

    def state(self) -> tuple[str, str]:
        seen = self.api.server(self.slug)
        return seen["connectionState"], (seen["lastError"] or {}).get("reason", "")

    def until_called(self) -> None:
        try:
            eventually(lambda: self.call()[0] == 200, AGAIN_SECONDS, "a call succeeds")
        except AssertionError as exc:
            now = (self.call(), self.state(), self.journal(), self.refreshes)
            raise AssertionError(f"{exc}: {now}") from exc


@contextmanager
def signed_in(stack: Stack) -> Iterator[Site]:
    """Add a protected server, sign in there, and connect; its tokens travel over a link."""
    slug = f"vault-{secrets.token_hex(3)}"
    with ProtectedMcp() as server:
        api = stack.api()
        link = stack.proxy.link(TOKEN_LINK, "127.0.0.1", int(urlsplit(server.base).port or 0))
        tokens = {"token_endpoint": f"http://127.0.0.1:{link.port}/as/token"}
        server.documents[METADATA] = Answer(body={**server.server_metadata(), **tokens})
        api.add_server(slug, server.mcp_url, auth={"type": "oauth"})
        asked = api.connect(slug)
        assert asked["connectionState"] == "authRequired", asked
        sign_in(stack, api, slug, asked["authorizationUrl"])
        site = Site(stack=stack, server=server, slug=slug, api=api)
        eventually(lambda: site.state()[0] == "connected", 30.0, f"{slug} is connected")
        yield site
        api.http.delete(f"/api/v1/servers/{slug}")
        stack.proxy.become(Mode.DOWN, TOKEN_LINK)


def sign_in(stack: Stack, api: Api, slug: str, address: str) -> None:
    """Walk to the provider and back, and complete as an app does."""
    led_on = httpx.get(f"{stack.url('web1')}{urlsplit(address).path}", trust_env=False)
    back = httpx.get(led_on.headers["location"], trust_env=False).headers["location"]
    done = api.http.post(f"/api/v1/servers/{slug}/complete-auth", json={"callbackUrl": back})
    assert done.status_code == 200, done.text


@run(
    "R20",
    "8 clients x 25 calls at expiry beside 4 diagnoses: 1 refresh POST, 0 reuse, 200 of 200",
    rounds=5,
    is_quick=True,
)
def race(stack: Stack, rounds: int) -> str:
    """Each round has a sign-in of its own: a fresh token that is refused again ends a grant."""
    for _ in range(rounds):
        with signed_in(stack) as site:
            site.expire()
            ends = crowd(site)
            assert ends == {"200": CLIENTS * CALLS}, (ends, site.refreshes, site.server.executed)
            assert (site.refreshes, site.server.hits["reuse"]) == (1, 0), site.server.hits
            assert site.server.executed == CLIENTS * CALLS
    return f"{rounds} x {CLIENTS * CALLS} calls, 1 POST each time, 0 reuse"


def crowd(site: Site) -> Counter[str]:
    """Call at once from 8 clients over both web processes, which diagnose meanwhile."""
    apis = [site.stack.api(WEBS[number % len(WEBS)]) for number in range(CLIENTS)]

    def call(number: int) -> str:
        """Call, and once more where nothing was accepted: that is the machine's own load."""
        for _ in range(PATIENCE):
            answer = apis[number % CLIENTS].call(site.slug, "read")
            if answer.is_success:
                return "200"
            code = answer.json().get("code", "")
            if code != "unavailable":
                break
        return f"{answer.status_code} {code}"

    def diagnose(number: int) -> list[str]:
        """Return what the checklist found wrong."""
        answer = apis[number].http.post(f"/api/v1/servers/{site.slug}/diagnose", json={}).json()
        steps = answer["steps"]
        return [f"{s['name']}: {s['code']}" for s in steps if s["outcome"] == "failed"]

    with ThreadPoolExecutor(CLIENTS * CALLS + 4) as threads:
        calls = [threads.submit(call, number) for number in range(CLIENTS * CALLS)]
        checks = [threads.submit(diagnose, number) for number in range(4)]
        failed = [check.result() for check in checks if check.result()]
        assert not failed, failed
        return Counter(one.result() for one in calls)


def end_lease(site: Site) -> None:
    """Let the dead refresher's lease be over, as it is after 25 s."""
    site.stack.sql("UPDATE oauth_grant SET refresh_until = NULL")


def wait_for_lease(_site: Site) -> None:
    """Leave the lease alone: whoever comes next waits for its end."""


@run(
    "R22",
    "kill -9 of the refresher at each point of the journal: R22's table, ≤ 2 POSTs, no loop",
    is_quick=True,
)
def kill_refresher(stack: Stack, _rounds: int) -> str:
    return _kills(stack, end_lease)


@run("R22L", "as R22, with the lease of 25 s left to end by itself", rounds=3)
def kill_refresher_and_wait(stack: Stack, rounds: int) -> str:
    return [_kills(stack, wait_for_lease) for _ in range(rounds)][-1]


def _kills(stack: Stack, after_death: Callable[[Site], None]) -> str:
    found = []
    for name, body in KILLS.items():
        with signed_in(stack) as site:
            body(site, after_death)
            assert site.server.hits["reuse"] <= 1
            found.append(f"{name}: {site.refreshes} POSTs, {site.state()[0]}, {site.journal()}")
    return "; ".join(found)


def kill(site: Site, program: Program, after_death: Callable[[Site], None]) -> int:
    before = program.pid
    program.signal(signal.SIGKILL)
    eventually(lambda: program.pid != before, 10.0, f"{program.name} is started again")
    after_death(site)
    return before


def kill_before_post(site: Site, after_death: Callable[[Site], None]) -> None:
    """Nothing has reached the provider: the next caller refreshes, once."""
    program = site.holder()
    before = program.pid
    site.stack.proxy.become(Mode.BLACK_HOLE, TOKEN_LINK)
    site.expire()
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(site.call)
        eventually(lambda: "started" in site.journal(), 20.0, "the journal has an entry")
        kill(site, program, after_death)
        site.stack.proxy.become(Mode.RESET, TOKEN_LINK)  # what was on its way is gone with it
        site.stack.proxy.become(Mode.PASS, TOKEN_LINK)
        call.result()
    site.until_called()
    assert site.refreshes == 1, site.server.hits
    assert site.journal()[-1] == "stored"
    replaced(site.stack, program.name, before)


def kill_after_provider_committed(site: Site, after_death: Callable[[Site], None]) -> None:
    """The new tokens are lost: a person is asked, with the reason, after one more POST."""
    program = site.holder()
    before = program.pid
    site.server.committed.clear()
    site.server.may_answer.clear()
    site.expire()
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(site.call)
        assert site.server.committed.wait(20)
        kill(site, program, after_death)
        site.server.may_answer.set()
        call.result()
    asked = ("authRequired", "refresh_interrupted")

    def is_asked() -> bool:
        site.call()
        return site.state() == asked

    eventually(is_asked, AGAIN_SECONDS, "a person is asked")
    for _ in range(5):
        assert site.call() == (409, "authorization_needed")
    assert site.refreshes == 2, site.server.hits
    sign_in(site.stack, site.api, site.slug, site.api.server(site.slug)["authorizationUrl"])
    site.until_called()
    replaced(site.stack, program.name, before)


def kill_after_commit(site: Site, after_death: Callable[[Site], None]) -> None:
    """The tokens are stored: whoever comes next uses them."""
    program = site.holder()
    before = program.pid
    site.expire()
    site.until_called()
    assert site.journal()[-1] == "stored"
    kill(site, program, after_death)
    site.until_called()
    assert site.refreshes == 1, site.server.hits
    replaced(site.stack, program.name, before)


KILLS = {
    "before the POST": kill_before_post,
    "after the provider's commit": kill_after_provider_committed,
    "after our commit": kill_after_commit,
}


@run("R27", "a refresher that sleeps through its lease is replaced, and its late write refused")
def sleep_through_lease(stack: Stack, _rounds: int) -> str:
    with signed_in(stack) as site:
        site.server.rules.rotates = False
        program = site.holder()
        site.server.committed.clear()
        site.server.may_answer.clear()
        site.expire()
        with ThreadPoolExecutor(1) as threads:
            call = threads.submit(site.call)
            assert site.server.committed.wait(20)
            program.signal(signal.SIGSTOP)
            site.server.may_answer.set()
            site.until_called()
            program.signal(signal.SIGCONT)
            call.result()
        eventually(stack.is_whole, 60.0, "the stack is whole")
        site.until_called()
        assert site.journal().count("stored") == 1, site.journal()
        return f"{site.refreshes} POSTs, {site.journal()}"
