"""Kinds of bearer tokens that apps above issue: they register here how such a token is read.

API keys and connect sessions are this app's own (see credentials.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tenants.principal import Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialKind:
    """How one kind becomes a Principal; both functions raise NotAuthenticatedError."""

    name: str
    """First part of `Principal.credential`, which is `{name}:{public id}`."""
    prefix: str
    """What every token of this kind begins with, and no other."""
    by_token: Callable[[str, str], Principal]
    """From the token and the resource at which it is shown (RFC 8707; "" is the REST API)."""
    by_id: Callable[[str], Principal]
    """From the public id, for streams, which hold no secret."""


_kinds: dict[str, CredentialKind] = {}


def register(kind: CredentialKind) -> None:
    _kinds[kind.name] = kind


def named(name: str) -> CredentialKind | None:
    return _kinds.get(name)


def of_token(token: str) -> CredentialKind | None:
    return next((kind for kind in _kinds.values() if token.startswith(kind.prefix)), None)
