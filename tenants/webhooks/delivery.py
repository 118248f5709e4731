"""Sends what is due, through the guarded egress: no redirect is followed, no answer is read."""

from __future__ import annotations

import asyncio
import logging
import time

from mcphub.core.clock import Deadline
from mcphub.core.egress import EgressClient, EgressRequest, policy_from_settings
from mcphub.core.errors import HubError
from mcphub.core.offload import DatabaseThreads
from tenants.webhooks import outbox, signing
from tenants.webhooks.outbox import Due

logger = logging.getLogger(__name__)

SECONDS = 10.0
ANSWER_BYTES = 64 << 10
GONE = 410


async def deliver_due() -> int:
    """Deliver one round; returns how many attempts were made."""
    http = EgressClient(policy_from_settings())
    threads = DatabaseThreads(name="webhooks", threads=1)
    try:
        due = await threads.run(outbox.take_due)
        await asyncio.gather(*(_attempt(http, threads, one) for one in due))
        return len(due)
    finally:
        await http.aclose()
        threads.close()


async def _attempt(http: EgressClient, threads: DatabaseThreads, due: Due) -> None:
    try:
        status = await _post(http, due)
    except HubError as exc:
        outcome, is_delivered = exc.problem_code, False
    else:
        outcome, is_delivered = f"http_{status}", 200 <= status < 300
    is_gone = outcome == f"http_{GONE}"
    if is_gone:
        await threads.run(outbox.switch_off, due.webhook.pk)
    await threads.run(outbox.settle, due, outcome, is_delivered=is_delivered, may_retry=not is_gone)
    logger.info("webhook message=%s outcome=%s attempt=%s", due.id, outcome, due.attempts + 1)


async def _post(http: EgressClient, due: Due) -> int:
    message_id = f"msg_{due.id.hex}"
    keys = outbox.secrets_of(due.webhook)
    signed = signing.headers(message_id, int(time.time()), due.body, keys)
    request = EgressRequest(
        method="POST",
        url=due.webhook.url,
        headers={"Content-Type": "application/json", "User-Agent": "mcphub", **signed},
        content=due.body,
        deadline=Deadline.after(SECONDS),
        max_bytes=ANSWER_BYTES,
        may_redirect=False,
    )
    async with http.stream(request) as answer:
        return answer.status
