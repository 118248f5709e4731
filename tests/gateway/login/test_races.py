"""Requests with one code, or one refresh token, at the same moment: one of them is served."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from django.db import connections
from oauth2_provider.models import AccessToken

from tests.gateway.login.client_app import Browser, registered
from tests.world import World

pytestmark = pytest.mark.django_db(transaction=True)

AT_ONCE = 4


def together(ask: Callable[[], Any]) -> list[int]:
    """Return the statuses of requests that begin at the same moment."""
    gate = Barrier(AT_ONCE, timeout=10)

    def one(_: int) -> int:
        try:
            gate.wait()
            status: int = ask().status_code
            return status
        finally:
            connections.close_all()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return sorted(pool.map(one, range(AT_ONCE)))


def test_code_that_several_show_at_once_serves_one(world: World) -> None:
    app = registered()
    code = app.code_of(Browser(person=world.bob))
    assert together(lambda: app.redeem(code)) == [200, 400, 400, 400]
    assert AccessToken.objects.count() <= 1


def test_refresh_token_that_several_show_at_once_serves_one(world: World) -> None:
    app = registered()
    tokens = app.sign_in(Browser(person=world.bob))
    assert together(lambda: app.refresh(tokens["refresh_token"])) == [200, 400, 400, 400]
    assert AccessToken.objects.count() <= 1
