"""Reads `WWW-Authenticate` fields by the grammar of RFC 9110 §11.6.1; pure.

Nothing is searched inside quoted text: a description that mentions `scope=admin` asks for nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

LONGEST = 16 << 10
TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
TOKEN68 = re.compile(r"[A-Za-z0-9._~+/-]+=*(?=[ \t]*(?:,|$))")
PARAMETER = re.compile(
    r"(?P<name>[A-Za-z0-9!#$%&'*+.^_`|~-]+)[ \t]*=[ \t]*"
    r'(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[A-Za-z0-9!#$%&\'*+.^_`|~:/?@-]+))'
)
SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,200}")
"""One scope token (RFC 6749 §3.3)."""
MOST_SCOPES = 100


@dataclass(frozen=True, slots=True)
class Challenge:
    """One challenge: scheme in lower case, parameters by name in lower case."""

    scheme: str
    params: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerChallenge:
    """What RFC 6750 §3 and RFC 9728 §5.1 put into a Bearer challenge."""

    error: str = ""
    scopes: tuple[str, ...] = ()
    resource_metadata: str = ""

    @property
    def wants_more_scopes(self) -> bool:
        return self.error == "insufficient_scope"


def parse(values: Iterable[str]) -> list[Challenge]:
    """Return the challenges of all fields; reading stops at what is no challenge."""
    return [challenge for value in values for challenge in _challenges(value[:LONGEST])]


def bearer(*values: str) -> BearerChallenge:
    """Return the first Bearer challenge that says something, or an empty one."""
    found = [c.params for c in parse(values) if c.scheme == "bearer"]
    params = next(filter(None, found), {})
    return BearerChallenge(
        error=params.get("error", ""),
        scopes=split_scopes(params.get("scope", "")),
        resource_metadata=params.get("resource_metadata", ""),
    )


def split_scopes(text: str) -> tuple[str, ...]:
    """Return the scope tokens of a space separated list, each once, in order."""
    names = [name for name in text.split() if SCOPE.fullmatch(name)]
    return tuple(dict.fromkeys(names))[:MOST_SCOPES]


def _challenges(text: str) -> Iterator[Challenge]:
    position = _skip(text, 0)
    while position < len(text):
        scheme = TOKEN.match(text, position)
        if scheme is None:
            return
        challenge = Challenge(scheme[0].lower())
        position = _parameters(text, scheme.end(), challenge)
        yield challenge


def _parameters(text: str, position: int, challenge: Challenge) -> int:
    """Fill in the parameters that follow a scheme; return where the next challenge begins."""
    if text[position : position + 1] not in {" ", "\t"}:
        return _skip(text, position) if text[position : position + 1] == "," else len(text)
    position = _blank(text, position)
    credentials = TOKEN68.match(text, position)
    if credentials is not None and PARAMETER.match(text, position) is None:
        return _skip(text, credentials.end())
    while (found := PARAMETER.match(text, position)) is not None:
        quoted = found["quoted"]
        value = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else found["plain"]
        challenge.params.setdefault(found["name"].lower(), value)
        after = _blank(text, found.end())
        if after < len(text) and text[after] != ",":
            return len(text)
        position = _skip(text, after)
    return position


def _blank(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t":
        position += 1
    return position


def _skip(text: str, position: int) -> int:
    """Pass blanks and commas; empty list elements are legal (RFC 9110 §5.6.1)."""
    while position < len(text) and text[position] in " \t,":
        position += 1
    return position
