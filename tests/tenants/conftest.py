"""Everything here counts rates, spends tickets or announces changes in Redis."""

from __future__ import annotations

import pytest
from redis import Redis


@pytest.fixture(autouse=True)
def _with_redis(redis: Redis) -> None:
    """Start each test with an empty Redis."""
