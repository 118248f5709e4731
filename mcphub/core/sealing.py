"""Secrets in columns: sealed for table, row and field, opened as Secret."""

from __future__ import annotations

from django.db.models import Model

from mcphub.core.crypto import Secret
from mcphub.core.keys import key_ring


def owner_of(row: Model, field: str) -> str:
    """Return the associated data of a sealed field, the same form in every package."""
    return f"{row._meta.db_table}:{row.pk}:{field}"  # noqa: SLF001  (Django's documented name)


def seal(row: Model, field: str, secret: Secret | None) -> bytes | None:
    if secret is None:
        return None
    return key_ring().seal(secret.value.encode(), owner=owner_of(row, field))


def unseal(row: Model, field: str) -> Secret | None:
    """Return the secret of `field`. Raises CredentialUnreadableError."""
    sealed = getattr(row, field)
    if not sealed:
        return None
    return Secret(key_ring().unseal(bytes(sealed), owner=owner_of(row, field)).decode())
