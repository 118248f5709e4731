"""One process of the fleet: `python -m tests.oauth.worker race|refresh …`, driven by its parent.

It says `ready`, waits for a line, does its part and prints one JSON line.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from typing import Any
from uuid import UUID

import django

django.setup()

from mcphub.core.egress import EgressClient, EgressPolicy, EgressRequest  # noqa: E402
from mcphub.core.errors import HubError  # noqa: E402
from mcphub.core.offload import DatabaseThreads  # noqa: E402
from oauth import bearer, refresh_lock  # noqa: E402
from oauth.means import Means  # noqa: E402


def wait_for_start() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()


async def call(means: Means, subject_key: UUID, url: str) -> int:
    """Call as a session host does: one newer token after a 401, one repetition."""
    rejected = None
    status = 0
    for _ in range(2):
        token = await bearer.access_token(means, subject_key, rejected=rejected)
        headers = {"Authorization": f"Bearer {token.value}", "Content-Type": "application/json"}
        answer = await means.http.fetch(
            EgressRequest(method="POST", url=url, headers=headers, content=b'{"tool": "read"}')
        )
        status = answer.status
        if status != 401:
            return status
        rejected = token.value
    return status


async def race(means: Means, subject_key: UUID, url: str, calls: int) -> dict[str, Any]:
    results = await asyncio.gather(*(call(means, subject_key, url) for _ in range(calls)))
    return dict(Counter(map(str, results)))


async def refresh(means: Means, subject_key: UUID, die: str) -> dict[str, Any]:
    """Ask for a token; `die` says where this process is killed, as by a power cut."""
    if die == "before":

        async def killed(*_: Any) -> Any:
            os.kill(os.getpid(), signal.SIGKILL)

        refresh_lock._ask = killed  # type: ignore[assignment]  # it never answers
    if die == "after":
        settle = refresh_lock._settle

        async def stored_and_killed(*args: Any, **kwargs: Any) -> None:
            await settle(*args, **kwargs)
            os.kill(os.getpid(), signal.SIGKILL)

        refresh_lock._settle = stored_and_killed
    try:
        await bearer.access_token(means, subject_key)
    except HubError as exc:
        return {"code": exc.problem_code, **exc.extra}
    return {"code": "ok"}


async def main(kind: str, subject_key: str, *rest: str) -> None:
    refresh_lock.LEASE_SECONDS = float(os.environ.get("TEST_LEASE_SECONDS", "25"))
    means = Means(
        EgressClient(EgressPolicy(allow_loopback=True)), DatabaseThreads(name="worker", threads=2)
    )
    wait_for_start()
    if kind == "race":
        result = await race(means, UUID(subject_key), rest[0], int(rest[1]))
    else:
        result = await refresh(means, UUID(subject_key), rest[0])
    await means.http.aclose()
    means.database.close()
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
