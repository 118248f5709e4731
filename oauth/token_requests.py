"""Requests to token and revocation endpoints, each with the client's proof; nothing is logged."""

from __future__ import annotations

import logging

from mcphub.core.crypto import Secret
from mcphub.core.egress import BufferedResponse
from mcphub.core.errors import HubError
from oauth import tokens
from oauth.clients import Client, sign
from oauth.means import Errand
from oauth.tokens import TokenAnswer, TokenRefusal

logger = logging.getLogger(__name__)


async def ask(
    errand: Errand, client: Client, endpoint: str, form: dict[str, str]
) -> TokenAnswer | TokenRefusal:
    """Send a token request. Raises HubError of the egress tree when no usable answer came."""
    signed = sign(client, form)
    answer = await errand.post(endpoint, signed.content, headers=signed.headers)
    read = tokens.parse(answer.status, answer.body)
    if isinstance(read, TokenRefusal):
        return TokenRefusal(
            error=read.error, http_status=read.http_status, retry_after=_retry_after(answer)
        )
    if read.oddities:
        logger.info("token answer read tolerantly oddities=%s", ",".join(read.oddities))
    return read


async def revoke(errand: Errand, client: Client, endpoint: str, *secrets: Secret | None) -> int:
    """Revoke tokens (RFC 7009), best effort, the given order; returns how many were taken."""
    done = 0
    for secret in filter(None, secrets):
        if not endpoint or not secret.value:
            continue
        try:
            signed = sign(client, {"token": secret.value})
            answer = await errand.post(endpoint, signed.content, headers=signed.headers)
        except HubError as exc:
            logger.info("token not revoked code=%s", exc.problem_code)
            continue
        done += answer.status == 200
    return done


def _retry_after(answer: BufferedResponse) -> float | None:
    text = answer.headers.get("retry-after", "").strip()
    return float(text) if text.isdecimal() and len(text) < 8 else None
