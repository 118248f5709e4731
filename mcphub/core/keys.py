"""The process's key ring, read from the settings once."""

from __future__ import annotations

from functools import lru_cache

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from mcphub.core.crypto import KeyRing


@lru_cache(maxsize=1)
def key_ring() -> KeyRing:
    """Return the key ring of MCPHUB_KEYS. Raises ImproperlyConfigured when there is none."""
    try:
        return KeyRing.parse(settings.MCPHUB_KEYS)
    except ValueError as exc:
        raise ImproperlyConfigured(f"MCPHUB_KEYS: {exc}") from exc
