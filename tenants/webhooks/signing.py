"""Secrets and signatures as Standard Webhooks has them; pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Sequence

from mcphub.core.crypto import Secret

PREFIX = "whsec_"
SECRET_BYTES = 32


def new_secret() -> Secret:
    return Secret(PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode())


def headers(message_id: str, timestamp: int, body: bytes, keys: Sequence[Secret]) -> dict[str, str]:
    """Return what a receiver checks; one signature for each secret that is still good."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return {
        "Webhook-Id": message_id,
        "Webhook-Timestamp": str(timestamp),
        "Webhook-Signature": " ".join(f"v1,{_sign(key, signed)}" for key in keys),
    }


def _sign(secret: Secret, signed: bytes) -> str:
    digest = hmac.new(_key(secret), signed, hashlib.sha256).digest()
    return base64.b64encode(digest).decode()


def _key(secret: Secret) -> bytes:
    try:
        return base64.b64decode(secret.value.removeprefix(PREFIX), validate=True)
    except binascii.Error as exc:
        raise ValueError("this is no webhook secret") from exc
