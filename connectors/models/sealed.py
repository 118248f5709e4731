"""JSON secrets in sealed columns, bound to the row and field that hold them.

`Connector.sealed_secrets` opens to {"headers": {…}, "environment": {…}, "oauth": {…}}, of which
`oauth` has `clientSecret` and `privateKey`. `Connection.sealed_credentials` opens to {"token": "…"}
(bearer), {"headers": {…}} (API keys) or {"clientSecret": "…"} (a member's own OAuth client).
"""

from __future__ import annotations

import json

from django.db.models import Model

from mcphub.core.crypto import CredentialUnreadableError
from mcphub.core.keys import key_ring
from mcphub.core.sealing import owner_of
from mcphub.core.types import JSONObject


def seal_json(row: Model, field: str, value: JSONObject) -> bytes | None:
    """Return what to store in `field`; None when there is nothing to keep."""
    if not any(value.values()):
        return None
    return key_ring().seal(json.dumps(value).encode(), owner=owner_of(row, field))


def open_json(row: Model, field: str) -> JSONObject:
    """Return the secrets of `field`, {} when there are none. Raises CredentialUnreadableError."""
    sealed = getattr(row, field)
    if not sealed:
        return {}
    try:
        value = json.loads(key_ring().unseal(bytes(sealed), owner=owner_of(row, field)))
    except ValueError as exc:
        raise CredentialUnreadableError from exc
    if not isinstance(value, dict):
        raise CredentialUnreadableError
    return value
