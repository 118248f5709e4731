"""The authorization server, switched on for every client."""

from __future__ import annotations

import pytest
from pytest_django.fixtures import Settings
from redis import Redis


@pytest.fixture(autouse=True)
def _role_is_on(settings: Settings, redis: Redis) -> None:
    """Rates are counted in Redis, so that each test starts with an empty one."""
    settings.CLIENT_LOGIN = "ANY"
