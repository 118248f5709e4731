"""Sessions of servers that want OAuth: sign in, refresh, step up, lose, revoke; one real worker."""

from __future__ import annotations

from datetime import timedelta

import httpx
import pytest
from asgiref.sync import async_to_sync

from connectors.models import Connection, Connector
from connectors.server_spec import AuthType
from connectors.services import (
    authorizations,
    connections,
    connectors,
    custom_servers,
    recovery,
)
from connectors.states import State
from mcphub.core.clock import now
from mcphub.core.errors import AuthorizationNeededError
from oauth.models import AuthorizationRequest, Grant
from oauth.names import LostReason
from oauth.records import requests
from oauth.signals import authorization_completed
from tests.connectors.oauth_desk import Desk
from tests.connectors.session_stack import SECONDS, running_worker
from tests.fakes.auth_server import Answer
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def desk(oauth_desk: Desk) -> Desk:
    return oauth_desk


@pytest.mark.parametrize("auth_type", ["oauth", "none"])
def test_member_signs_in_and_is_connected_by_itself(desk: Desk, auth_type: str) -> None:
    row = desk.connect(desk.add(auth_type))
    asked = desk.view(row)
    assert (asked.state, asked.next_action) == (State.AUTH_REQUIRED, "authorize")
    assert asked.auth.type is AuthType.OAUTH

    desk.sign_in(row)

    desk.settled(row, State.CONNECTED)
    seen = desk.view(row)
    assert (seen.auth.granted_scopes, seen.auth.issuer) == (("files:read",), desk.server.issuer)
    assert (seen.auth.has_credentials, seen.authorization_url) == (True, None)
    assert seen.auth.forecast is not None
    assert seen.auth.forecast.can_refresh
    assert desk.stack.call(row, "read") is None


def test_server_without_metadata_says_so(desk: Desk) -> None:
    desk.server.rules.challenge = None
    desk.server.documents = {
        path: Answer(404)
        for path in (
            "/.well-known/oauth-protected-resource",
            "/.well-known/oauth-protected-resource/mcp",
        )
    }

    row = desk.connect(desk.add())

    assert row.last_error is not None
    assert (row.state, row.last_error["code"]) == (State.ERROR.value, "no_oauth_metadata")


def test_refused_token_is_renewed_once_and_the_call_goes_on(desk: Desk) -> None:
    row = desk.connected()
    desk.server.end_access_tokens()

    assert desk.stack.call(row, "read") is None
    assert len(desk.server.forms("refresh_token")) == 1
    assert desk.server.executed == 1


def test_restart_with_an_expired_token_needs_no_person(desk: Desk) -> None:
    row = desk.connected()
    desk.age(row)
    desk.stack.close(row)
    connections.disconnect(desk.person.principal, row)

    desk.connect(row)

    assert row.state == State.CONNECTED.value
    assert len(desk.server.forms("authorization_code")) == 1


def test_refreshed_token_goes_on_in_the_session_of_a_worker_that_is_gone(desk: Desk) -> None:
    row = desk.connected()
    opened = desk.server.opened
    desk.stack.worker.host.run(desk.stack.worker.host.leave(row.pk), SECONDS)  # as if killed
    desk.age(row)

    with running_worker() as other:
        keeper = other.worker.keeper
        assert other.worker.host.run(keeper.take_over(desk.stack.worker.id), SECONDS) == 1
        eventually(lambda: other.is_open(row), what="the session is taken over")

        assert other.call(row, "read") is None
    assert desk.server.opened == opened
    assert len(desk.server.forms("refresh_token")) == 1


def test_revoked_authorization_asks_for_a_new_sign_in(desk: Desk) -> None:
    row = desk.connected()
    desk.server.end_refresh_tokens()

    error = desk.stack.call(row, "read")

    assert isinstance(error, AuthorizationNeededError)
    assert desk.view(row).authorization_url
    desk.settled(row, State.AUTH_REQUIRED)
    assert row.last_error is not None
    assert row.last_error["reason"] == LostReason.REFRESH_REFUSED.value
    assert desk.view(row).authorization_url
    assert not desk.stack.is_open(row)


def test_tokens_that_are_always_refused_end_in_no_loop(desk: Desk) -> None:
    row = desk.connected()
    desk.server.rules.accepts_tokens = False

    assert isinstance(desk.stack.call(row, "read"), AuthorizationNeededError)

    desk.settled(row, State.AUTH_REQUIRED)
    assert row.last_error is not None
    assert row.last_error["reason"] == LostReason.FRESH_TOKEN_REJECTED.value
    assert len(desk.server.forms("refresh_token")) == 1


def test_more_scopes_are_asked_for_and_then_the_call_succeeds(desk: Desk) -> None:
    row = desk.connected()
    desk.server.rules.step_up = {"write": "files:write"}

    assert isinstance(desk.stack.call(row, "write"), AuthorizationNeededError)
    desk.settled(row, State.AUTH_REQUIRED)
    desk.sign_in(row)
    desk.settled(row, State.CONNECTED)

    assert desk.view(row).auth.granted_scopes == ("files:read", "files:write")
    assert desk.stack.call(row, "write") is None


def test_steps_up_at_most_three_times(desk: Desk) -> None:
    row = desk.connected()
    desk.server.rules.step_up = {"write": "files:write"}
    for _ in range(3):
        desk.stack.call(row, "write")
        desk.settled(row, State.AUTH_REQUIRED)
        desk.sign_in(row)
        desk.settled(row, State.CONNECTED)
        for token in desk.server.access.values():
            token.scope = "files:read"

    error = desk.stack.call(row, "write")

    assert error is not None
    assert error.problem_code == "insufficient_scope"
    row.refresh_from_db()
    assert row.state == State.CONNECTED.value


def test_forgetting_revokes_at_the_provider(desk: Desk) -> None:
    row = desk.connected()

    connections.disconnect(desk.person.principal, row, forget=True)

    assert desk.server.current_refresh_tokens() == []
    assert not Grant.unscoped.filter(subject_key=row.pk).exists()
    assert desk.view(row).state is State.DISCONNECTED


def test_disconnecting_keeps_the_authorization(desk: Desk) -> None:
    row = desk.connected()

    connections.disconnect(desk.person.principal, row)

    assert len(desk.server.current_refresh_tokens()) == 1
    assert desk.connect(row).state == State.CONNECTED.value


def test_removing_revokes_at_the_provider(desk: Desk) -> None:
    row = desk.connected()

    connections.remove(desk.person.principal, row)

    assert desk.server.current_refresh_tokens() == []
    assert not Grant.unscoped.exists()


def test_another_address_drops_the_tokens(desk: Desk) -> None:
    row = desk.connected()

    custom_servers.update_custom_server(
        desk.person.principal, row, {"url": "http://127.0.0.1:9/mcp"}
    )

    assert not Grant.unscoped.filter(subject_key=row.pk).exists()


def test_signing_in_after_disconnecting_does_not_connect(desk: Desk) -> None:
    row = desk.connect(desk.add())
    address = AuthorizationRequest.unscoped.get(subject_key=row.pk)
    connections.disconnect(desk.person.principal, row)
    found = requests.address_of(address.pk)
    assert found is not None

    back = httpx.get(found.value, follow_redirects=False).headers["location"]
    async_to_sync(desk.complete)(back, row.pk)

    row.refresh_from_db()
    assert row.state == State.DISCONNECTED.value


def machine(desk: Desk) -> Connection:
    """Return Alice's connection to a preset that signs in as the hub itself."""
    desk.server.clients["robot"] = {"client_secret": "robot-secret"}
    preset = Connector(
        slug="machine",
        name="Machine",
        url=desk.server.mcp_url,
        auth_type="oauth",
        auth_config={"grantType": "client_credentials", "clientId": "robot"},
    )
    connectors.store(preset, secrets={"oauth": {"clientSecret": "robot-secret"}})
    return connections.ensure(desk.person.principal, "machine")


@pytest.mark.parametrize("config", [[1], "text", {"scopes": "a"}])
def test_choices_that_cannot_be_read_end_in_an_error_that_says_so(
    desk: Desk, config: object
) -> None:
    row = machine(desk)
    Connector.unscoped.filter(slug="machine").update(auth_config=config)

    desk.connect(row)

    assert row.last_error is not None
    assert (row.state, row.last_error["code"]) == (State.ERROR.value, "invalid_input")
    preset = Connector.unscoped.get(slug="machine")
    preset.auth_config = {"clientId": "robot"}
    connectors.store(preset)


def test_machine_connects_without_a_person(desk: Desk) -> None:
    row = machine(desk)

    desk.connect(row)

    desk.settled(row, State.CONNECTED)
    assert desk.stack.call(row, "read") is None


def test_machine_whose_tokens_are_refused_does_not_ask_forever(desk: Desk) -> None:
    desk.server.rules.accepts_tokens = False
    row = machine(desk)

    desk.connect(row)

    desk.settled(row, State.AUTH_REQUIRED)
    assert len(desk.server.forms("client_credentials")) <= 3


def test_admin_revocation_asks_the_member_to_sign_in(desk: Desk) -> None:
    row = desk.connected()

    authorizations.revoke(row.pk)

    desk.settled(row, State.AUTH_REQUIRED)
    assert desk.view(row).authorization_url


def test_sign_in_whose_end_reached_nobody_is_found_by_the_sweep(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = desk.connect(desk.add())
    receivers: list[object] = []
    monkeypatch.setattr(authorization_completed, "receivers", receivers)
    authorization_completed.sender_receivers_cache.clear()
    desk.sign_in(row)
    Connection.unscoped.filter(pk=row.pk).update(updated_at=now() - timedelta(seconds=6))
    Grant.unscoped.filter(subject_key=row.pk).update(issued_at=now())

    recovery.sweep_leases()

    desk.settled(row, State.CONNECTED)
