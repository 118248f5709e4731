"""Subscriptions of an event loop: what a server that has fallen silent leads to."""

from __future__ import annotations

import pytest

from mcphub.core import pubsub


async def test_a_silent_server_that_answers_no_ping_ends_the_subscription() -> None:
    class Silent:
        pings = 0

        async def get_message(self, timeout: float) -> None:  # noqa: ASYNC109  (redis-py's)
            return None

        async def ping(self) -> None:
            self.pings += 1

    silent = Silent()
    with pytest.raises(TimeoutError):
        await pubsub._next_message(silent)
    assert silent.pings == 2
