"""Figures of `GET /usage`; packages above add theirs with `register`."""

from __future__ import annotations

from collections.abc import Callable

from mcphub.core.clock import now
from mcphub.core.types import JSONObject
from tenants.models import ApiKey, ConnectSession, Membership
from tenants.principal import Principal, Scope

Figures = Callable[[Principal], JSONObject]

_sources: list[Figures] = []


def register(figures: Figures) -> None:
    """Add a function that returns figures of the principal's tenant (from an AppConfig.ready)."""
    if figures not in _sources:
        _sources.append(figures)


def usage(principal: Principal) -> JSONObject:
    """Return the tenant's figures, merged. Raises NotPermittedError."""
    principal.require(Scope.MEMBERS_READ)
    sessions = ConnectSession.objects.of(principal)
    figures: JSONObject = {
        "members": Membership.objects.of(principal).filter(is_active=True).count(),
        "apiKeys": ApiKey.objects.of(principal).filter(revoked_at__isnull=True).count(),
        "connectSessions": sessions.filter(revoked_at__isnull=True, expires_at__gt=now()).count(),
    }
    for source in _sources:
        figures |= source(principal)
    return figures
