"""Secrets that work once and shortly: tickets and login links; Redis sees their digest only."""

from __future__ import annotations

import hashlib
import json

from redis.exceptions import RedisError

from mcphub.core import ids, redis
from mcphub.core.errors import UnavailableError
from mcphub.core.types import JSONObject


def issue(kind: str, payload: JSONObject, *, seconds: int) -> str:
    """Return a new token that `redeem` turns into `payload` once. Raises UnavailableError."""
    token = ids.new_secret()
    try:
        redis.shared().set(_key(kind, token), json.dumps(payload), ex=seconds)
    except RedisError as exc:
        raise UnavailableError(retry_after=2) from exc
    return token


def redeem(kind: str, token: str) -> JSONObject | None:
    """Return the payload and end the token, in one step. Raises UnavailableError."""
    try:
        found = redis.shared().getdel(_key(kind, token))
    except RedisError as exc:
        raise UnavailableError(retry_after=2) from exc
    if not isinstance(found, bytes | str):
        return None
    payload: JSONObject = json.loads(found)
    return payload


def _key(kind: str, token: str) -> str:
    return redis.key(kind, hashlib.sha256(token.encode()).hexdigest())
