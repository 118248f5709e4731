"""Who may begin, follow and finish a sign-in through REST, and who may not, whatever they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from connectors.models import Connection, Connector
from connectors.services import connections, connectors, custom_servers
from connectors.states import State
from oauth.models import AuthorizationRequest, ClientRegistration, Grant
from tenants.models import Membership
from tests import factories
from tests.connectors.oauth_desk import Desk
from tests.connectors.session_stack import add_server
from tests.world import Person, World, bearer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("rest")]

REFUSED = (400, "authorization_state_invalid")


@dataclass
class Visitor:
    """Somebody with a credential and a browser of their own."""

    desk: Desk
    headers: Mapping[str, str]
    browser: Client

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        headers = {**self.headers, "Prefer": "respond-async"}
        return self.browser.post(
            f"/api/v1/servers/{path}", body, content_type="application/json", headers=headers
        )

    def begin(self, row: Connection, **body: str) -> dict[str, Any]:
        """Connect; return the server object that says where to sign in."""
        answer = self.post(f"{row.slug}/connect", body)
        assert answer.status_code == 202, answer.content
        self.desk.stack.try_open(row)
        seen = self.browser.get(f"/api/v1/servers/{row.slug}", headers=self.headers).json()
        assert isinstance(seen, dict)
        return seen

    def follow(self, address: str) -> Any:
        """Open the address in the browser; the answer leads to the provider, or says no."""
        return self.browser.get(urlsplit(address).path)

    def land(self, back: str) -> Any:
        """Come back from the provider."""
        parts = urlsplit(back)
        return self.browser.get(f"{parts.path}?{parts.query}")

    def complete(self, row: Connection, back: str) -> tuple[int, str]:
        answer = self.post(f"{row.slug}/complete-auth", {"callbackUrl": back})
        return answer.status_code, answer.json().get("code", "")


def at_provider(led_on: Any) -> str:
    """Consent at the provider; return where it sends the browser."""
    assert led_on.status_code == 302, led_on.content
    return httpx.get(led_on.headers["location"], follow_redirects=False).headers["location"]


def with_key(desk: Desk, person: Person) -> Visitor:
    return Visitor(desk, person.headers, Client())


def logged_in(desk: Desk, person: Person) -> Visitor:
    """Return the person with a key, and a browser that is logged in at the hub."""
    browser = Client()
    browser.force_login(person.user)
    return Visitor(desk, person.headers, browser)


def end_user(desk: Desk, admin: Membership) -> tuple[Visitor, Connection]:
    """Return an app's end user in a browser of their own, and their server."""
    session = factories.make_connect_session(admin)
    row = add_server(factories.principal_of(session.session.member), desk.server.mcp_url)
    return Visitor(desk, bearer(session.token), Client()), row


def exchanged(desk: Desk) -> int:
    return len(desk.server.forms("authorization_code"))


# --- attacks ----------------------------------------------------------------------------------


def test_members_cannot_finish_the_sign_in_of_somebody_else(oauth_desk: Desk, world: World) -> None:
    alice = logged_in(oauth_desk, world.alice)
    row = oauth_desk.add()
    back = at_provider(alice.follow(alice.begin(row)["authorizationUrl"]))
    for other in (world.bob, world.charlie):
        own = add_server(other.principal, oauth_desk.server.mcp_url)
        mallory = logged_in(oauth_desk, other)
        assert mallory.complete(own, back) == REFUSED
        assert mallory.complete(row, back)[0] == 404
        assert mallory.land(back).status_code == 400
    assert exchanged(oauth_desk) == 0
    assert alice.complete(row, back)[0] == 200


def test_state_of_another_connection_of_the_same_member_is_refused(
    oauth_desk: Desk, world: World
) -> None:
    alice = logged_in(oauth_desk, world.alice)
    row, other = oauth_desk.add(), oauth_desk.add()
    back = at_provider(alice.follow(alice.begin(row)["authorizationUrl"]))

    assert alice.complete(other, back) == REFUSED

    assert (exchanged(oauth_desk), Grant.unscoped.count()) == (0, 0)


def test_victim_who_opens_the_address_of_somebody_else_never_gets_to_the_provider(
    oauth_desk: Desk, world: World
) -> None:
    mallory, row = end_user(oauth_desk, world.alice.member)
    victim, own = end_user(oauth_desk, world.alice.member)
    victim.begin(own)
    before = oauth_desk.server.hits["GET /as/authorize"]

    page = victim.follow(mallory.begin(row)["authorizationUrl"])

    assert (page.status_code, b"another browser" in page.content) == (400, True)
    assert oauth_desk.server.hits["GET /as/authorize"] == before


def test_victim_who_comes_back_with_the_state_of_somebody_else_links_nothing(
    oauth_desk: Desk, world: World
) -> None:
    mallory, row = end_user(oauth_desk, world.alice.member)
    victim, own = end_user(oauth_desk, world.alice.member)
    victim.begin(own)
    back = at_provider(mallory.follow(mallory.begin(row)["authorizationUrl"]))

    assert victim.land(back).status_code == 400
    assert victim.complete(own, back) == REFUSED
    assert exchanged(oauth_desk) == 0


def test_app_that_caught_another_address_than_the_redirect_uri_is_refused(
    oauth_desk: Desk, world: World
) -> None:
    alice = logged_in(oauth_desk, world.alice)
    row = oauth_desk.add()
    back = at_provider(alice.follow(alice.begin(row)["authorizationUrl"]))
    elsewhere = urlsplit(back)._replace(netloc="evil.example").geturl()

    assert alice.complete(row, elsewhere) == REFUSED
    assert alice.complete(row, back)[0] == 200


# --- the ways that work -----------------------------------------------------------------------


def test_end_user_is_bound_to_the_browser_that_asked(oauth_desk: Desk, world: World) -> None:
    visitor, row = end_user(oauth_desk, world.alice.member)
    address = visitor.begin(row)["authorizationUrl"]
    cookie = visitor.browser.cookies["mcphub-oauth"]
    assert (cookie["httponly"], cookie["samesite"]) == (True, "Lax")
    back = at_provider(visitor.follow(address))

    assert Visitor(oauth_desk, {}, Client()).land(back).status_code == 400
    assert visitor.land(back).status_code == 200

    oauth_desk.settled(row, State.CONNECTED)


def test_member_may_go_on_in_another_browser_that_is_logged_in(
    oauth_desk: Desk, world: World
) -> None:
    row = oauth_desk.add()
    desktop, laptop = (logged_in(oauth_desk, world.alice) for _ in range(2))
    address = desktop.begin(row)["authorizationUrl"]
    back = at_provider(laptop.follow(address))

    assert desktop.land(back).status_code == 400
    assert laptop.land(back).status_code == 200


def test_return_url_given_to_connect_is_where_the_browser_ends(
    oauth_desk: Desk, world: World
) -> None:
    alice = logged_in(oauth_desk, world.alice)
    row = oauth_desk.add()
    bad = alice.post(f"{row.slug}/connect", {"returnUrl": "https://evil.example/"})
    assert (bad.status_code, bad.json()["errors"][0]["path"]) == (422, "/returnUrl")
    allow(world, "https://app.example")
    address = alice.begin(row, returnUrl="https://app.example/done?tab=1")["authorizationUrl"]

    landed = alice.land(at_provider(alice.follow(address)))

    assert landed.headers["location"] == "https://app.example/done?tab=1&mcphub=connected"


def test_app_with_its_own_redirect_uri_completes(oauth_desk: Desk, world: World) -> None:
    own = "https://app.example/oauth/done"
    allow(world, "https://app.example")
    visitor, row = end_user(oauth_desk, world.alice.member)
    seen = visitor.begin(row, redirectUri=own)
    assert "mcphub-oauth" not in visitor.browser.cookies
    back = at_provider(visitor.follow(seen["authorizationUrl"]))
    assert back.startswith(f"{own}?")

    assert visitor.complete(row, back)[0] == 200

    oauth_desk.settled(row, State.CONNECTED)
    assert oauth_desk.server.forms("authorization_code")[0]["redirect_uri"] == own
    assert [row.redirect_uri for row in ClientRegistration.unscoped.all()] == [own]


@pytest.mark.parametrize(
    "uri", ["https://evil.example/cb", "http://plain.example/cb", "javascript:alert(1)", "https://"]
)
def test_redirect_uri_of_nobody_known_is_refused(oauth_desk: Desk, world: World, uri: str) -> None:
    allow(world, "http://plain.example")
    row = oauth_desk.add()

    bad = with_key(oauth_desk, world.alice).post(f"{row.slug}/connect", {"redirectUri": uri})

    assert (bad.status_code, bad.json()["errors"][0]["path"]) == (422, "/redirectUri")


def test_member_sees_what_will_be_asked_before_going_there(oauth_desk: Desk, world: World) -> None:
    seen = with_key(oauth_desk, world.alice).begin(oauth_desk.add())

    asked = seen["auth"]["authorizationRequest"]
    assert (asked["issuer"], asked["scopes"]) == (oauth_desk.server.issuer, ["files:read"])
    assert asked["expiresAt"] > seen["createdAt"]


# --- limits -----------------------------------------------------------------------------------


def test_eleventh_sign_in_of_a_member_in_a_minute_waits(
    oauth_desk: Desk, world: World, settings: Settings
) -> None:
    settings.SIGN_INS_PER_MINUTE = 10
    row = oauth_desk.add()
    for _ in range(10):
        assert oauth_desk.connect(row).state == State.AUTH_REQUIRED.value

    oauth_desk.connect(row)

    assert row.last_error is not None
    assert (row.state, row.last_error["code"]) == (State.CONNECTING.value, "rate_limited")
    assert row.next_retry_at is not None
    other = add_server(world.bob.principal, oauth_desk.server.mcp_url, auth_type="oauth")
    connections.connect(world.bob.principal, other)
    oauth_desk.stack.try_open(other)
    assert other.state == State.AUTH_REQUIRED.value


def preset(desk: Desk, **auth: Any) -> Connection:
    row = Connector(
        slug="capped", name="Capped", url=desk.server.mcp_url, auth_type="oauth", auth_config=auth
    )
    connectors.store(row)
    return connections.ensure(desk.person.principal, "capped")


def test_nothing_beyond_the_operators_cap_is_asked_for(oauth_desk: Desk) -> None:
    oauth_desk.server.rules.challenge = "Bearer"
    row = oauth_desk.connect(preset(oauth_desk, scopeCap=["files:read"]))
    asked = AuthorizationRequest.unscoped.get(subject_key=row.pk)
    assert asked.scopes == ["files:read"]


def test_step_up_beyond_the_cap_asks_nobody(oauth_desk: Desk) -> None:
    oauth_desk.server.rules.step_up = {"write": "files:write"}
    row = oauth_desk.connected(preset(oauth_desk, scopeCap=["files:read"]))

    error = oauth_desk.stack.call(row, "write")

    assert error is not None
    assert (error.problem_code, error.extra["neededScopes"]) == (
        "insufficient_scope",
        ["files:write"],
    )
    row.refresh_from_db()
    assert row.state == State.CONNECTED.value


# --- W08: another client, another issuer ------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"issuer": "https://login.example"},
        {"clientId": "another"},
        {"grantType": "client_credentials", "clientId": "another"},
    ],
    ids=["issuer", "clientId", "grantType"],
)
def test_another_client_of_a_preset_drops_the_tokens(
    oauth_desk: Desk, change: dict[str, str]
) -> None:
    row = oauth_desk.connected(preset(oauth_desk))
    connector = Connector.unscoped.get(slug="capped")
    connector.auth_config = change

    connectors.store(connector, secrets={"oauth": {"clientSecret": "s"}})

    assert not Grant.unscoped.filter(subject_key=row.pk).exists()
    assert oauth_desk.server.current_refresh_tokens() == []


def test_another_client_of_a_members_server_drops_the_tokens(oauth_desk: Desk) -> None:
    row = oauth_desk.connected()

    custom_servers.update_custom_server(
        oauth_desk.person.principal, row, {"auth_config": {"clientId": "another"}}
    )

    assert not Grant.unscoped.filter(subject_key=row.pk).exists()


def allow(world: World, origin: str) -> None:
    tenant = world.alice.tenant
    tenant.allowed_origins = [origin]
    tenant.save(update_fields=["allowed_origins"])
