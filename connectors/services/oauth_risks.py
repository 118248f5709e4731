"""Names the risk of every preset's choices about signing in, for system checks and admin pages."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Warning  # noqa: A004  (Django's name)
from django.db import DatabaseError

from connectors import oauth_choices
from connectors.models import Connector
from connectors.models.sealed import open_json
from connectors.server_spec import AuthType
from mcphub.core.errors import HubError
from oauth.risks import Risk, risks_of


def risks_for(connector: Connector) -> list[Risk]:
    """Return the risks of one preset; none where it cannot be read (a sign-in says so)."""
    if connector.auth_type != AuthType.OAUTH:
        return []
    try:
        given = open_json(connector, "sealed_secrets").get("oauth")
        secrets = given if isinstance(given, dict) else {}
        return risks_of(oauth_choices.read(connector.auth_config, secrets, url=connector.url))
    except HubError:
        return []


def check_presets(*, databases: Any = None, **_: Any) -> list[CheckMessage]:
    """Warn of risky choices of presets; part of `check --database default` and of `migrate`."""
    if not databases:
        return []
    try:
        rows = list(Connector.unscoped.filter(auth_type=AuthType.OAUTH.value))
    except DatabaseError:  # not migrated yet
        return []
    return [
        Warning(risk.text, hint=risk.hint, obj=row.slug, id=f"connectors.W.{risk.code}")
        for row in rows
        for risk in risks_for(row)
    ]
