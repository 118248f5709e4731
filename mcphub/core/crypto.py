"""Sealing of secrets at rest: AES-256-GCM under a key ring, bound to the row that owns the secret.

A sealed value is the bytes `kid:` + nonce (12) + ciphertext + tag (16). The row's identity is the
associated data, so a ciphertext that is moved to another row does not open. Failure is an error,
never a guess.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mcphub.core.errors import HubError

NONCE_BYTES = 12
KEY_BYTES = 32
KID = re.compile(r"[A-Za-z0-9._-]{1,40}")


class CredentialUnreadableError(HubError):
    code = "credential_unreadable"
    status = 500
    title = "A stored secret cannot be read with the configured keys"


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret in memory; its representation hides the value."""

    value: str

    def __repr__(self) -> str:
        return "Secret(…)"

    __str__ = __repr__


class KeyRing:
    """Named 256-bit keys; the first one seals, all of them open."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        if not keys:
            raise ValueError("a key ring needs at least one key")
        for kid, key in keys.items():
            if len(key) != KEY_BYTES or not KID.fullmatch(kid):
                raise ValueError(f"a key needs a plain id and {KEY_BYTES} bytes")
        self._ciphers = {kid: AESGCM(key) for kid, key in keys.items()}
        self.primary = next(iter(keys))

    @classmethod
    def parse(cls, text: str) -> KeyRing:
        """Read `kid:base64,kid:base64`; the first key seals. Raises ValueError naming the place."""
        keys: dict[str, bytes] = {}
        for number, item in enumerate(filter(None, (part.strip() for part in text.split(","))), 1):
            kid, colon, encoded = item.partition(":")
            # The item itself is never told: without its colon all of it is the key.
            if not colon or not KID.fullmatch(kid):
                raise ValueError(f"key number {number} is not of the form id:base64")
            if kid in keys:
                raise ValueError(f"key number {number} has the id of an earlier one")
            key = _decoded(encoded)
            if key is None or len(key) != KEY_BYTES:
                raise ValueError(f"key number {number} is not {KEY_BYTES} bytes in base64")
            keys[kid] = key
        return cls(keys)

    @staticmethod
    def new_key(kid: str) -> str:
        """Return a fresh random key in the form that `parse` reads."""
        return f"{kid}:{base64.urlsafe_b64encode(os.urandom(KEY_BYTES)).decode().rstrip('=')}"

    def seal(self, plain: bytes, *, owner: str) -> bytes:
        """Return `plain` sealed for `owner`: table, row and field (`grant:7:access_token`)."""
        nonce = os.urandom(NONCE_BYTES)
        body = self._ciphers[self.primary].encrypt(nonce, plain, owner.encode())
        return self.primary.encode() + b":" + nonce + body

    def unseal(self, sealed: bytes, *, owner: str) -> bytes:
        """Open a sealed value. Raises CredentialUnreadableError: unknown key, owner or damage."""
        kid, _, rest = bytes(sealed).partition(b":")
        name = kid.decode("ascii", "replace")
        cipher = self._ciphers.get(name)
        if cipher is None:
            known = name if KID.fullmatch(name) else "?"
            raise CredentialUnreadableError(
                f"The key {known!r} of a stored secret is not in the key ring."
            )
        try:
            return cipher.decrypt(rest[:NONCE_BYTES], rest[NONCE_BYTES:], owner.encode())
        except (InvalidTag, ValueError) as exc:
            raise CredentialUnreadableError from exc

    def reseal(self, sealed: bytes, *, owner: str) -> bytes | None:
        """Return the value sealed under the primary key, or None when it already is."""
        if bytes(sealed).startswith(self.primary.encode() + b":"):
            return None
        return self.seal(self.unseal(sealed, owner=owner), owner=owner)


def _decoded(text: str) -> bytes | None:
    """Return what base64 of either alphabet says, padding optional; None when it is not base64."""
    text = text.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
