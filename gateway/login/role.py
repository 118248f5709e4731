"""Whether the hub is an authorization server, and under which name."""

from __future__ import annotations

from django.conf import settings

from gateway.login.policy import Mode


def is_on() -> bool:
    return bool(settings.CLIENT_LOGIN != Mode.OFF)


def issuers() -> tuple[str, ...]:
    """Return the issuer that protected resources name; none while the role is off."""
    return (settings.BASE_URL,) if is_on() else ()
