"""Signing in at a strict server through the running hub: pushed, restarted, raced, revoked, secret.

A hub of its own that logs at DEBUG; the browser is an HTTP client that is logged in there.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from redis import Redis

from tests.fakes.oauth_mcp import ProtectedMcp
from tests.live.api import Api
from tests.live.stack import RunningHub, running
from tests.live.test_events_live import Event, events_of, open_socket
from tests.waiting import eventually

pytestmark = pytest.mark.live

SLUG = "vault"
OAUTH = {"type": "oauth"}


@dataclass(frozen=True, slots=True)
class Person:
    """An owner with an app's key, a logged-in browser, and one protected server."""

    hub: RunningHub
    api: Api
    browser: httpx.Client
    server: ProtectedMcp

    def add(self) -> None:
        self.api.add_server(SLUG, self.server.mcp_url, auth=OAUTH)

    def remove(self) -> None:
        self.api.http.delete(f"/api/v1/servers/{SLUG}")

    def address(self) -> str:
        """Connect, and return where to sign in."""
        asked = self.api.connect(SLUG)
        assert asked["connectionState"] == "authRequired", asked
        return str(asked["authorizationUrl"])

    def walk(self, address: str) -> httpx.Response:
        """Follow the address as a browser does; return the last page."""
        return self.browser.get(address, follow_redirects=True)

    def state(self) -> str:
        return str(self.api.server(SLUG)["connectionState"])

    def becomes(self, state: str) -> Mapping[str, Any]:
        eventually(lambda: self.state() == state, 20.0, f"the server is {state}")
        return self.api.server(SLUG)


def environment() -> dict[str, str]:
    return {
        "MCPHUB_REDIS_URL": os.environ["MCPHUB_REDIS_URL"],
        "MCPHUB_REDIS_PREFIX": f"oauth{os.getpid()}",
        "MCPHUB_LOG_LEVEL": "DEBUG",
    }


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("oauth")


@pytest.fixture(scope="module")
def hub(home: Path, valkey: object) -> Iterator[RunningHub]:
    with running(home, "--workers", "2", **environment()) as hub:
        yield hub


def browser_at(hub: RunningHub) -> httpx.Client:
    """Return a browser that is logged in; the link works once."""
    browser = httpx.Client(trust_env=False, timeout=30.0)
    browser.get(hub.ready.admin_url, follow_redirects=True)
    hub.clients.append(browser)
    return browser


@pytest.fixture(scope="module")
def browser(hub: RunningHub) -> httpx.Client:
    return browser_at(hub)


@pytest.fixture
def person(hub: RunningHub, browser: httpx.Client) -> Iterator[Person]:
    server = ProtectedMcp()
    with server:
        person = Person(hub, Api(hub.client()), browser, server)
        person.add()
        yield person
        person.remove()


def is_state(state: str) -> Callable[[Event], bool]:
    def check(event: Event) -> bool:
        server = event.get("server", {})
        return event["type"] == "server.state" and bool(
            (server["id"], server["connectionState"]) == (SLUG, state)
        )

    return check


def test_connect_sign_in_and_call_pushed_without_asking_again(person: Person) -> None:
    with open_socket(person.api, "servers") as socket:
        address = person.address()
        asked = events_of(socket, is_state("authRequired"))[-1]["server"]
        assert asked["authorizationUrl"] == address

        page = person.walk(address)
        assert (page.status_code, "You are signed in" in page.text) == (200, True)

        states = [e["server"]["connectionState"] for e in events_of(socket, is_state("connected"))]
        assert states == ["authPending", "connecting", "connected"]
    seen = person.api.server(SLUG)["auth"]
    assert (seen["grantedScopes"], seen["hasCredentials"]) == (["files:read"], True)
    assert seen["forecast"]["canRefresh"] is True
    assert seen["forecast"]["willRefreshAt"] < seen["expiresAt"]
    assert person.api.text(SLUG, "read") == "done"


def test_app_that_owns_the_redirect_completes_with_its_key(person: Person) -> None:
    led_on = person.browser.get(person.address())
    back = httpx.get(led_on.headers["location"]).headers["location"]

    done = person.api.http.post(f"/api/v1/servers/{SLUG}/complete-auth", json={"callbackUrl": back})

    assert done.status_code == 200, done.text
    person.becomes("connected")


def test_many_calls_at_the_end_of_a_token_make_one_refresh(person: Person) -> None:
    person.walk(person.address())
    person.becomes("connected")
    person.server.end_access_tokens()

    async def calls() -> list[int]:
        async with person.hub.async_client() as client:
            path = f"/api/v1/servers/{SLUG}/tools/read/call"
            posts = [client.post(path, json={"arguments": {}}) for _ in range(25)]
            return [answer.status_code for answer in await asyncio.gather(*posts)]

    assert asyncio.run(calls()) == [200] * 25
    assert len(person.server.forms("refresh_token")) == 1
    assert person.server.hits["reuse"] == 0


def test_call_of_a_revoked_authorization_says_where_to_sign_in(person: Person) -> None:
    person.walk(person.address())
    person.becomes("connected")
    person.server.end_access_tokens()
    person.server.end_refresh_tokens()

    refused = person.api.call(SLUG, "read")

    assert (refused.status_code, refused.json()["code"]) == (409, "authorization_needed")
    found = person.becomes("authRequired")
    assert refused.json()["authorizationUrl"] == found["authorizationUrl"]
    assert found["lastError"]["reason"] == "refresh_refused"
    later = person.api.call(SLUG, "read")
    assert later.json()["authorizationUrl"] == found["authorizationUrl"]
    person.walk(found["authorizationUrl"])
    person.becomes("connected")
    assert person.api.text(SLUG, "read") == "done"


def test_forgetting_revokes(person: Person) -> None:
    person.walk(person.address())
    person.becomes("connected")

    person.api.http.post(f"/api/v1/servers/{SLUG}/disconnect", json={"forget": True})

    assert person.server.current_refresh_tokens() == []
    assert person.api.server(SLUG)["auth"]["hasCredentials"] is False


def test_somebody_else_cannot_finish_a_sign_in(person: Person) -> None:
    address = person.address()

    with httpx.Client(trust_env=False) as stranger:
        page = stranger.get(address, follow_redirects=True)

    assert page.status_code == 400
    assert person.state() == "authRequired"


def test_full_restart_with_an_expired_token_asks_nobody(home: Path, valkey: object) -> None:
    server = ProtectedMcp(expires_in=3, access_seconds=3.0)
    own = environment() | {"MCPHUB_REDIS_PREFIX": f"again{os.getpid()}"}
    with server:
        with running(home / "again", "--workers", "1", **own) as hub:
            person = Person(hub, Api(hub.client()), browser_at(hub), server)
            person.add()
            person.walk(person.address())
            person.becomes("connected")
        server.end_access_tokens()
        with running(home / "again", "--workers", "1", **own) as hub:
            person = replace(person, hub=hub, api=Api(hub.client(person.hub.ready.api_key)))
            person.becomes("connected")
            assert person.api.text(SLUG, "read") == "done"
        assert len(server.forms("authorization_code")) == 1


# --- secrets ----------------------------------------------------------------------------------


def test_no_secret_is_anywhere_but_sealed(person: Person) -> None:
    """Search logs at DEBUG, Redis, the database, traces, events, admin pages and error bodies."""
    texts: list[str] = []
    person.server.rules.registration = {
        "client_secret": "sentinel-of-the-client",
        "token_endpoint_auth_method": "client_secret_post",
        "registration_access_token": "sentinel-of-the-registration",
    }
    hook = person.api.http.put(
        "/api/v1/tenants/current/webhook", json={"url": "http://127.0.0.1:9/hook"}
    ).json()
    with open_socket(person.api, "servers", "calls", "traces") as socket:
        address = person.address()
        led_on = person.browser.get(address)
        at_provider = led_on.headers["location"]
        texts.append(person.walk(at_provider).text)
        texts += map(json.dumps, events_of(socket, is_state("connected")))
        assert "at-" in person.api.text(SLUG, "leak")  # the server's own words, to its caller
        person.server.end_access_tokens()
        person.api.call(SLUG, "leak")
        person.server.end_access_tokens()
        person.server.end_refresh_tokens()
        texts.append(person.api.call(SLUG, "read").text)
        texts += map(json.dumps, events_of(socket, is_state("authRequired")))
    texts += [person.api.http.get(path).text for path in PAGES]
    texts += [person.browser.get(f"{person.hub.url}{path}").text for path in ADMIN_PAGES]
    texts += [path.read_text(errors="replace") for path in person.hub.home.glob("logs/*.log")]
    texts += [path.read_bytes().decode("latin-1") for path in person.hub.home.glob("*.sqlite3*")]
    texts += redis_dump()
    query = parse_qs(urlsplit(at_provider).query)
    forms = person.server.forms("authorization_code")
    secrets = {query["state"][0], forms[0]["code"], forms[0]["code_verifier"]}
    secrets |= {*person.server.access, *person.server.refresh, hook["secret"]}
    secrets |= {"sentinel-of-the-client", "sentinel-of-the-registration"}

    assert forms[0]["client_secret"] == "sentinel-of-the-client"
    assert len(secrets) >= 10
    found = {
        (secret[:8], text[max(0, text.find(secret) - 120) : text.find(secret)])
        for secret in secrets
        for text in texts
        if secret in text
    }
    assert found == set()
    assert sum(map(len, texts)) > 100_000


PAGES = (
    *("/api/v1/servers", f"/api/v1/servers/{SLUG}", "/api/v1/traces", "/api/v1/calls"),
    *(f"/api/v1/servers/{SLUG}/timeline", "/api/v1/connectors", "/api/v1/elicitations"),
    *("/api/v1/tenants/current/webhook", "/api/v1/tenants/current/webhook/deliveries"),
)
ADMIN_PAGES = (
    *("/admin/oauth/grant/", "/admin/oauth/clientregistration/", "/admin/connectors/connection/"),
    *("/admin/connectors/toolcall/", "/admin/oauth/refreshjournal/", "/admin/tenants/webhook/"),
    "/admin/tenants/webhookdelivery/",
)


def redis_dump() -> list[str]:
    """Return every value that this Redis holds."""
    client = Redis.from_url(os.environ["MCPHUB_REDIS_URL"])
    return [repr(client.dump(key)) + repr(read_key(client, key)) for key in client.scan_iter()]


def read_key(client: Any, key: bytes) -> Any:
    kind = client.type(key).decode()
    readers: dict[str, Callable[[], Any]] = {
        "stream": lambda: client.xrange(key),
        "string": lambda: client.get(key),
        "hash": lambda: client.hgetall(key),
        "list": lambda: client.lrange(key, 0, -1),
        "set": lambda: client.smembers(key),
        "zset": lambda: client.zrange(key, 0, -1),
    }
    return readers[kind]() if kind in readers else ""
