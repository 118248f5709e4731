"""Fixtures of the kernel's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mcphub.core.egress import EgressClient, EgressPolicy


@pytest.fixture
async def client() -> AsyncIterator[EgressClient]:
    client = EgressClient(EgressPolicy(allow_loopback=True))
    yield client
    await client.aclose()
