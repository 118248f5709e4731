"""A tenant's webhook: signed, repeated with pauses, bounded, guarded, and silent about secrets."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import Client
from pytest_django.fixtures import Settings
from redis import Redis

from mcphub.core.clock import now
from tenants.models import Webhook, WebhookDelivery
from tenants.webhooks import delivery, outbox
from tests.fakes.webhook_receiver import WebhookReceiver
from tests.world import Person, World

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis")]

HOOK = "/api/v1/tenants/current/webhook"
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "webhooks.md"


@pytest.fixture
def app() -> Iterator[WebhookReceiver]:
    with WebhookReceiver() as running:
        yield running


def ask(method: str, person: Person, path: str = "", **body: Any) -> Any:
    call = getattr(Client(), method)
    headers = person.headers
    if method == "get":
        return call(f"{HOOK}{path}", headers=headers)
    return call(f"{HOOK}{path}", body, content_type="application/json", headers=headers)


def set_up(person: Person, app: WebhookReceiver) -> str:
    """Set the webhook and return its secret."""
    answer = ask("put", person, url=app.url)
    assert answer.status_code == 201, answer.content
    return str(answer.json()["secret"])


def deliver() -> int:
    return async_to_sync(delivery.deliver_due)()


def make_due() -> None:
    WebhookDelivery.unscoped.update(next_attempt_at=now())


def log(person: Person) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = ask("get", person, "/deliveries").json()["items"]
    return items


def documented_check() -> Callable[[str, dict[str, str], bytes], bool]:
    """Return the function that the documentation gives to receivers."""
    found = re.search(r"```python\n(.+?)```", DOCUMENT.read_text(), re.DOTALL)
    assert found is not None
    names: dict[str, Any] = {}
    exec(found[1], names)
    check: Callable[[str, dict[str, str], bytes], bool] = names["is_from_mcphub"]
    return check


def test_message_is_signed_as_the_documentation_checks_it(
    world: World, app: WebhookReceiver
) -> None:
    secret = set_up(world.alice, app)
    answer = ask("post", world.alice, "/test")

    assert deliver() == 1

    [got] = app.got
    check = documented_check()
    assert (answer.status_code, answer.json()["id"]) == (202, got.headers["webhook-id"])
    assert check(secret, got.headers, got.body)
    assert not check(secret, got.headers, got.body + b" ")
    assert not check("whsec_c2hvcnQ=", got.headers, got.body)
    assert not check(secret, {**got.headers, "webhook-timestamp": "1700000000"}, got.body)
    assert json.loads(got.body)["type"] == "webhook.test"
    assert {name: log(world.alice)[0][name] for name in ("status", "attempts", "outcome")} == {
        "status": "delivered",
        "attempts": 1,
        "outcome": "http_204",
    }


def test_secret_is_shown_once_and_sealed(world: World, app: WebhookReceiver) -> None:
    secret = set_up(world.alice, app)
    ask("post", world.alice, "/test")
    deliver()
    again = ask("put", world.alice, url=app.url)
    pages = [ask("get", world.alice, path).content.decode() for path in ("", "/deliveries")]
    admin = Client()
    admin.force_login(world.root)
    row = Webhook.unscoped.get()
    pages += [
        admin.get(f"/admin/tenants/{path}").content.decode()
        for path in ("webhook/", f"webhook/{row.pk}/change/", "webhookdelivery/")
    ]

    assert (again.status_code, "secret" in again.json()) == (200, False)
    assert not [page for page in pages if secret.removeprefix("whsec_") in page]
    assert secret.encode() not in bytes(row.sealed_secret)


def test_both_secrets_sign_for_a_day_after_a_rotation(world: World, app: WebhookReceiver) -> None:
    former = set_up(world.alice, app)
    secret = ask("post", world.alice, "/rotate").json()["secret"]
    check = documented_check()
    ask("post", world.alice, "/test")
    deliver()
    got = app.got[-1]
    assert check(secret, got.headers, got.body)
    assert check(former, got.headers, got.body)

    Webhook.unscoped.update(former_secret_until=now() - timedelta(seconds=1))
    ask("post", world.alice, "/test")
    deliver()

    got = app.got[-1]
    assert check(secret, got.headers, got.body)
    assert not check(former, got.headers, got.body)


def test_failed_attempt_is_repeated_later_with_the_same_id(
    world: World, app: WebhookReceiver
) -> None:
    set_up(world.alice, app)
    app.statuses = [500]
    ask("post", world.alice, "/test")
    deliver()
    waiting = WebhookDelivery.unscoped.get()
    assert waiting.next_attempt_at is not None
    assert 3 < (waiting.next_attempt_at - now()).total_seconds() < 7
    assert (deliver(), log(world.alice)[0]["outcome"]) == (0, "http_500")
    make_due()

    assert deliver() == 1

    assert [got.headers["webhook-id"] for got in app.got] == [f"msg_{waiting.pk.hex}"] * 2
    assert log(world.alice)[0]["status"] == "delivered"


def test_message_is_given_up_after_nine_attempts(world: World, app: WebhookReceiver) -> None:
    set_up(world.alice, app)
    app.statuses = [503] * 20
    ask("post", world.alice, "/test")
    for _ in range(12):
        make_due()
        deliver()

    assert len(app.got) == 9
    assert log(world.alice)[0]["status"] == "failed"


def test_receiver_that_is_gone_is_left_alone(world: World, app: WebhookReceiver) -> None:
    set_up(world.alice, app)
    app.statuses = [410]
    ask("post", world.alice, "/test")
    deliver()
    ask("post", world.alice, "/test")
    make_due()

    assert deliver() == 0

    assert ask("get", world.alice).json()["isActive"] is False
    assert len(app.got) == 1


def test_redirect_is_not_followed(world: World, app: WebhookReceiver) -> None:
    set_up(world.alice, app)
    app.statuses, app.location = [307], app.url
    ask("post", world.alice, "/test")
    deliver()

    assert len(app.got) == 1
    assert log(world.alice)[0]["outcome"] == "redirect_refused"


def test_receiver_that_never_answers_is_given_up_in_time(
    world: World, app: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "SECONDS", 0.3)
    set_up(world.alice, app)
    app.may_answer.clear()
    ask("post", world.alice, "/test")

    assert deliver() == 1

    assert log(world.alice)[0]["outcome"] == "timeout"


@pytest.mark.parametrize(
    "url",
    ["http://169.254.169.254/latest", "https://10.0.0.8/hook", "http://app.example/", "gopher://x"],
)
def test_address_that_the_hub_may_not_call_is_refused(
    world: World, url: str, settings: Settings
) -> None:
    settings.EGRESS_ALLOW_LOOPBACK = False
    answer = ask("put", world.alice, url=url)

    assert answer.status_code in {400, 422}
    assert not Webhook.unscoped.exists()


def test_address_that_became_forbidden_is_not_called(world: World, app: WebhookReceiver) -> None:
    set_up(world.alice, app)
    Webhook.unscoped.update(url="https://10.0.0.8/hook")
    ask("post", world.alice, "/test")
    deliver()

    assert log(world.alice)[0]["outcome"] == "blocked_url"


def message(number: int, subject: Any = None) -> outbox.Message:
    return outbox.Message(
        type="connection.updated", data={"number": number}, subject=subject, change="state"
    )


def test_newest_message_about_a_connection_replaces_the_one_that_waits(
    world: World, app: WebhookReceiver
) -> None:
    set_up(world.alice, app)
    subject = Webhook.unscoped.get().pk
    for number in [*range(50), 49]:
        outbox.tell_news(world.alice.tenant.pk, partial(message, number, subject))

    deliver()

    assert [json.loads(got.body)["data"]["number"] for got in app.got] == [49]


def test_one_tenants_backlog_does_not_keep_another_waiting(
    world: World, app: WebhookReceiver
) -> None:
    set_up(world.alice, app)
    with WebhookReceiver() as other:
        set_up(world.charlie, other)
        for _ in range(120):
            outbox.tell(world.alice.tenant.pk, lambda: message(1, uuid.uuid4()))
        ask("post", world.charlie, "/test")

        assert deliver() == outbox.MOST_PER_TENANT + 1

        assert (len(app.got), len(other.got)) == (outbox.MOST_PER_TENANT, 1)


def test_secret_that_cannot_be_opened_stops_nobody_elses_messages(
    world: World, app: WebhookReceiver
) -> None:
    set_up(world.alice, app)
    Webhook.unscoped.update(sealed_secret=b"sealed with a key that was lost")
    ask("post", world.alice, "/test")
    with WebhookReceiver() as other:
        set_up(world.charlie, other)
        ask("post", world.charlie, "/test")

        assert deliver() == 2

        assert (len(app.got), len(other.got)) == (0, 1)
    waiting = log(world.alice)[0]
    assert (waiting["status"], waiting["outcome"]) == ("pending", "credential_unreadable")


def test_message_is_claimed_by_one_of_two_processes(world: World, app: WebhookReceiver) -> None:
    set_up(world.alice, app)
    ask("post", world.alice, "/test")

    assert [len(outbox.take_due()), len(outbox.take_due())] == [1, 0]


def test_members_and_other_tenants_have_no_say(world: World, app: WebhookReceiver) -> None:
    set_up(world.alice, app)

    assert ask("get", world.bob).status_code == 403
    assert ask("put", world.bob, url=app.url).status_code == 403
    assert ask("get", world.charlie).status_code == 404
    assert ask("post", world.charlie, "/rotate").status_code == 404
    assert log(world.charlie) == []
    assert ask("delete", world.alice).status_code == 204
    assert ask("get", world.alice).status_code == 404


def test_admin_sets_tests_and_rotates(world: World, app: WebhookReceiver, redis: Redis) -> None:
    admin = Client()
    admin.force_login(world.root)
    form = {"tenant": str(world.alice.tenant.pk), "is_active": "on"}
    refused = admin.post("/admin/tenants/webhook/add/", {**form, "url": "https://10.0.0.8/"})
    assert (refused.status_code, Webhook.unscoped.count()) == (200, 0)

    made = admin.post("/admin/tenants/webhook/add/", {**form, "url": app.url}, follow=True)
    row = Webhook.unscoped.get()
    selected = {"_selected_action": [str(row.pk)]}
    rotated = admin.post("/admin/tenants/webhook/", {**selected, "action": "rotate"}, follow=True)
    admin.post("/admin/tenants/webhook/", {**selected, "action": "send_test"})
    deliver()

    secrets = [re.search(r"whsec_[\w+/=]+", page.content.decode()) for page in (made, rotated)]
    assert all(secrets)
    [got] = app.got
    for found in secrets:
        assert found is not None
        assert documented_check()(found[0], got.headers, got.body)
    assert admin.get("/admin/tenants/webhookdelivery/").status_code == 200


def test_log_ends_after_a_week(world: World, app: WebhookReceiver) -> None:
    set_up(world.alice, app)
    ask("post", world.alice, "/test")
    assert outbox.prune() == 0
    WebhookDelivery.unscoped.update(created_at=now() - timedelta(days=7, minutes=1))

    assert outbox.prune() == 1
