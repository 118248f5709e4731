"""Public identifiers: what they look like and how they are made."""

from __future__ import annotations

import re
import secrets
import time
import uuid

SLUG_MAX = 24
SLUG_RULE = (
    "Lower-case letters, digits, single - or _ between them, a letter first, "
    f"at most {SLUG_MAX} characters."
)
SLUG = re.compile(r"[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*")


def new_uuid() -> uuid.UUID:
    """Return a time-ordered UUID version 7 (RFC 9562 §5.7): index inserts stay local, pages sort.

    The 12 bits after the version hold the fraction of the millisecond (§6.2, method 3), so that ids
    made one after the other by one process are in that order.
    """
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    fraction = rest * 4096 // 1_000_000
    value = (milliseconds & ((1 << 48) - 1)) << 80 | 0x7 << 76 | fraction << 64
    return uuid.UUID(int=value | 0x2 << 62 | secrets.randbits(62))


def new_secret() -> str:
    """Return 256 random bits, URL-safe, without padding and without underscore."""
    return secrets.token_hex(32)


def is_slug(text: str) -> bool:
    """Whether `text` may be a server id: letter first, at most 24 characters, never `__`."""
    return len(text) <= SLUG_MAX and SLUG.fullmatch(text) is not None


def slug_from(text: str) -> str:
    """Return a slug made of `text`; "server" when nothing of it can be used."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    slug = "-".join(words)[:SLUG_MAX].strip("-")
    if not slug or not slug[0].isalpha():
        slug = f"s-{slug}"[:SLUG_MAX].strip("-") if slug else "server"
    return slug
