"""Whom a member signed in as, where OpenID Connect tells; only for showing."""

from __future__ import annotations

import logging

from mcphub.core.errors import HubError
from oauth import tokens
from oauth.means import Errand
from oauth.records.requests import Pending
from oauth.tokens import TokenAnswer

logger = logging.getLogger(__name__)

OPENID = "openid"


async def find(errand: Errand, pending: Pending, answer: TokenAnswer) -> str:
    """Return the name from the ID token or the userinfo endpoint, "" when nobody tells."""
    request = pending.request
    if answer.id_token is not None:
        who = tokens.identity_of(
            answer.id_token, issuer=request.issuer, client_id=pending.client.client_id
        )
        if who:
            return who
    granted = request.scopes if answer.scopes is None else answer.scopes
    if not request.userinfo_endpoint or OPENID not in granted:
        return ""
    try:
        told = await errand.get(
            request.userinfo_endpoint, Authorization=f"Bearer {answer.access_token.value}"
        )
    except HubError as exc:
        logger.info("userinfo not read code=%s", exc.problem_code)
        return ""
    return tokens.identity(tokens.json_object(told.body)) if told.status == 200 else ""
