"""No token, code or verifier is in the database, in Redis or in a log line."""

from __future__ import annotations

import logging

import pytest
from django.apps import apps
from redis import Redis

from tests.gateway.login.client_app import Browser, parameters_of, registered, works
from tests.world import World

pytestmark = pytest.mark.django_db


def stored() -> str:
    """Return every value of every row."""
    models = apps.get_models(include_auto_created=True)
    rows = (row for model in models for row in model._base_manager.values_list())
    return "\n".join(repr(row) for row in rows)


def in_redis(redis: Redis) -> str:
    kept = [(name, redis.type(name)) for name in redis.scan_iter(count=1000)]
    return repr([(name, redis.get(name) if kind == b"string" else kind) for name, kind in kept])


def test_nothing_that_opens_a_door_is_kept_or_logged(
    world: World, redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    app, browser = registered(), Browser(person=world.bob)
    code = parameters_of(browser.answer(app.ask(browser)))["code"]
    secrets = [code, app.verifier]
    while_waiting = stored()
    first = app.redeem(code).json()
    second = app.refresh(first["refresh_token"]).json()
    assert works(second["access_token"])
    secrets += [
        tokens[kind] for tokens in (first, second) for kind in ("access_token", "refresh_token")
    ]
    app.redeem(code, code_verifier="x" * 43)
    app.refresh(first["refresh_token"])
    app.revoke(second["access_token"])
    kept = {"database": while_waiting + stored(), "redis": in_redis(redis), "logs": caplog.text}
    found = [(place, n) for place, text in kept.items() for n, s in enumerate(secrets) if s in text]
    assert found == []
    assert "client login ended" in caplog.text
    assert app.client_id in kept["database"]
