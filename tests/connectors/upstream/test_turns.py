"""A reader that always has more to read leaves the loop to others."""

from __future__ import annotations

import asyncio
import time

from connectors.upstream.turns import TURN_SECONDS, Turns

MESSAGES = 100


async def test_others_run_between_the_messages_of_a_flood() -> None:
    seen: list[int] = []
    order: list[str] = []

    async def neighbour() -> None:
        for _ in range(3):
            order.append(f"neighbour after {len(seen)}")
            turn = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(turn.set_result, None)
            await turn

    async def reader() -> None:
        turns = Turns()
        for number in range(MESSAGES):
            compute(TURN_SECONDS / 4)
            seen.append(number)
            await turns.pass_on()

    async with asyncio.TaskGroup() as group:
        reading = group.create_task(reader())
        group.create_task(neighbour()).add_done_callback(
            lambda _: order.append("done early" if not reading.done() else "done late")
        )
    assert order[-1] == "done early"


async def test_a_short_turn_is_not_interrupted() -> None:
    turns, ran = Turns(), asyncio.Event()
    asyncio.get_running_loop().call_soon(ran.set)
    await turns.pass_on()
    assert not ran.is_set()


def compute(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
