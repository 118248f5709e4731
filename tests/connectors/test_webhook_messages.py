"""What a tenant's app hears of its members' connections, and what it does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from connectors import events
from connectors.states import State
from mcphub.core.clock import now
from oauth import sweeping
from oauth.models import Grant
from tenants.models import WebhookDelivery
from tenants.webhooks import delivery, endpoints
from tests.connectors.oauth_desk import Desk
from tests.fakes.webhook_receiver import WebhookReceiver

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def app(oauth_desk: Desk) -> Iterator[WebhookReceiver]:
    with WebhookReceiver() as running:
        endpoints.put(oauth_desk.person.principal, url=running.url)
        yield running


def heard(app: WebhookReceiver) -> list[dict[str, Any]]:
    """Return what has come since the last time."""
    async_to_sync(delivery.deliver_due)()
    told = [json.loads(got.body)["data"] for got in app.got]
    app.got.clear()
    return told


def test_app_hears_of_states_and_of_what_will_happen(
    oauth_desk: Desk, app: WebhookReceiver
) -> None:
    row = oauth_desk.connect(oauth_desk.add())
    [asked] = heard(app)
    assert (asked["connectionState"], asked["nextAction"]) == ("authRequired", "authorize")
    assert (asked["connection"], asked["server"]) == (str(row.pk), row.slug)

    oauth_desk.sign_in(row)
    oauth_desk.settled(row, State.CONNECTED)
    assert heard(app)[-1]["connectionState"] == "connected"

    oauth_desk.server.end_access_tokens()
    assert oauth_desk.stack.call(row, "read") is None
    [refreshed] = heard(app)
    assert (refreshed["change"], refreshed["auth"]["forecast"]["canRefresh"]) == ("refreshed", True)

    end = now() + timedelta(minutes=10)
    Grant.unscoped.update(
        sealed_refresh_token=None, expires_at=end, issued_at=end - timedelta(hours=1)
    )
    async_to_sync(sweeping.sweep)()
    ending = heard(app)[0]
    assert (ending["change"], ending["auth"]["forecast"]["endsAt"]) == ("ending", end.isoformat())


def test_nothing_is_said_twice(oauth_desk: Desk, app: WebhookReceiver) -> None:
    row = oauth_desk.connect(oauth_desk.add())
    heard(app)

    events.announce_server(row)

    assert heard(app) == []


def test_messages_hold_no_secret_and_no_address_to_sign_in_at(
    oauth_desk: Desk, app: WebhookReceiver
) -> None:
    row = oauth_desk.connected()
    oauth_desk.server.end_refresh_tokens()
    oauth_desk.stack.call(row, "read")
    oauth_desk.settled(row, State.AUTH_REQUIRED)
    async_to_sync(delivery.deliver_due)()

    text = "\n".join(WebhookDelivery.unscoped.values_list("body", flat=True))
    form = oauth_desk.server.forms("authorization_code")[0]
    hidden = {form["code"], form["code_verifier"], "/oauth/authorize/", oauth_desk.server.mcp_url}
    hidden |= {*oauth_desk.server.access, *oauth_desk.server.refresh}
    assert "refresh_refused" in text
    assert [secret for secret in hidden if secret in text] == []
