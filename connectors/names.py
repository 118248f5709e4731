"""Public tool names: valid for every model provider, stable, and reversible by a stored table.

Pure. The way back is never a split of the string: two servers or two tools may make it ambiguous
(API design §8).
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping

PUBLIC_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
LONGEST = 64
SEPARATOR = "__"
HASH_LENGTHS = (8, 16, 24, 32)

_UNUSABLE = re.compile(r"[^A-Za-z0-9_-]+")


def assign(slug: str, names: Iterable[str], taken: Mapping[str, str]) -> dict[str, str]:
    """Return the public name of every upstream name; names of `taken` keep the one they have.

    The answer depends on the set of names alone, not on their order. A name that needs no change
    gets its plain form; one that had to be changed gets it only when nobody else wants it, and a
    short hash of the upstream name at its end otherwise.
    """
    fresh = sorted(set(names) - set(taken))
    used = set(taken.values())
    wishes = Counter(plain_form(slug, name) for name in fresh)
    chosen = dict(taken)
    for name in sorted(fresh, key=lambda each: (is_altered(slug, each), each)):
        wish = plain_form(slug, name)
        if wish in used or (is_altered(slug, name) and wishes[wish] > 1):
            wish = _with_hash(slug, name, used)
        chosen[name] = wish
        used.add(wish)
    return chosen


def is_public(text: str) -> bool:
    """Whether `text` may be shown to every provider as a tool name."""
    return PUBLIC_NAME.fullmatch(text) is not None


def is_altered(slug: str, name: str) -> bool:
    """Whether `name` cannot be used as it is behind the server's slug."""
    return plain_form(slug, name) != f"{slug}{SEPARATOR}{name}"


def plain_form(slug: str, name: str) -> str:
    """Return `slug__name` with what no provider takes replaced by `_`, cut to 64 characters."""
    cleaned = _UNUSABLE.sub("_", name) or "_"
    return f"{slug}{SEPARATOR}{cleaned}"[:LONGEST]


def _with_hash(slug: str, name: str, used: set[str]) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    for length in HASH_LENGTHS:
        stem = plain_form(slug, name)[: LONGEST - length - 1].rstrip("_-")
        candidate = f"{stem}_{digest[:length]}"
        if candidate not in used:
            return candidate
    raise ValueError("no free public name: SHA-256 of two different names agrees")
