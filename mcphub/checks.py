"""System checks: settings that cannot work (`mcphub.E…`) and ones that are unsafe (`mcphub.W…`)."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register  # noqa: A004  (Django's name)
from django.core.exceptions import ImproperlyConfigured

from mcphub import env
from mcphub.core.crypto import KeyRing

SHORT_SECRET = 32
OURS = re.compile(r"MCPHUB_(?!TEST_|SERVICE_(HOST|PORT)|PORT(_|$))")
"""Names of our settings; the others are the tests' and what Kubernetes sets for a service."""


@register("mcphub")
def check_settings(**_: Any) -> list[CheckMessage]:
    """Run every rule below."""
    return [message for rule in RULES for message in rule()]


def key_ring() -> Sequence[CheckMessage]:
    try:
        KeyRing.parse(settings.MCPHUB_KEYS)
    except ValueError as exc:
        hint = "Set MCPHUB_KEYS (or MCPHUB_KEYS_FILE) to `kid:base64 of 32 random bytes`."
        return [Error(f"The key ring cannot be used: {exc}", hint=hint, id="mcphub.E001")]
    return []


def secret_key() -> Sequence[CheckMessage]:
    try:
        key = settings.SECRET_KEY
    except ImproperlyConfigured:
        hint = "Set MCPHUB_SECRET_KEY (or MCPHUB_SECRET_KEY_FILE) to 50 random characters."
        return [Error("There is no secret key.", hint=hint, id="mcphub.E002")]
    if len(key) < SHORT_SECRET and not is_local():
        hint = "Use 50 random characters."
        return [Warning("The secret key is short.", hint=hint, id="mcphub.W003")]
    return []


def base_url() -> Sequence[CheckMessage]:
    if settings.IS_HTTPS or is_local():
        return []
    hint = "Serve it behind TLS and set MCPHUB_BASE_URL to the https address."
    text = "Credentials travel in clear: the base address is http and no loopback address."
    return [Warning(text, hint=hint, id="mcphub.W001")]


def loopback_egress() -> Sequence[CheckMessage]:
    if not settings.EGRESS_ALLOW_LOOPBACK or is_local():
        return []
    hint = "Unset MCPHUB_EGRESS_ALLOW_LOOPBACK; list single hosts in MCPHUB_EGRESS_ALLOW instead."
    text = "Every member can reach the services of this machine through the hub."
    return [Warning(text, hint=hint, id="mcphub.W002")]


def stdio() -> Sequence[CheckMessage]:
    if not settings.STDIO_ENABLED:
        return []
    hint = "Unset MCPHUB_STDIO_ENABLED unless presets with a command are needed."
    text = "Presets of the operator may start programs on the workers' machines."
    return [Warning(text, hint=hint, id="mcphub.W004")]


def hosts() -> Sequence[CheckMessage]:
    if "*" not in settings.ALLOWED_HOSTS:
        return []
    hint = "Name the hosts in MCPHUB_ALLOWED_HOSTS."
    text = "Any Host header is accepted, which opens the hub to DNS rebinding."
    return [Warning(text, hint=hint, id="mcphub.W005")]


def cors() -> Sequence[CheckMessage]:
    plain = [origin for origin in settings.CORS_ALLOWED_ORIGINS if origin.startswith("http://")]
    if not plain or is_local():
        return []
    hint = "Use https origins in MCPHUB_CORS_ORIGINS."
    text = "Pages that are not served by TLS may call the API."
    return [Warning(text, hint=hint, id="mcphub.W006")]


def metadata_egress() -> Sequence[CheckMessage]:
    wide = [rule for rule in settings.EGRESS_ALLOW if _covers_metadata(rule)]
    if not wide:
        return []
    hint = "List smaller networks in MCPHUB_EGRESS_ALLOW."
    text = f"The egress rule {wide[0]} covers the address of cloud metadata services."
    return [Warning(text, hint=hint, id="mcphub.W007")]


def unknown_settings() -> Sequence[CheckMessage]:
    names = {name.removesuffix("_FILE") for name in os.environ if OURS.match(name)} - env.known
    if not names:
        return []
    hint = "Correct the spelling, or unset them; docs/configuration.md lists every setting."
    text = f"Nothing reads these settings: {', '.join(sorted(names))}."
    return [Warning(text, hint=hint, id="mcphub.W008")]


def is_local() -> bool:
    """Whether the hub serves the machine that it runs on, and nobody else."""
    host = urlsplit(settings.BASE_URL).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _covers_metadata(rule: str) -> bool:
    network = rule.rsplit(":", 1)[0] if rule.count(":") == 1 else rule
    try:
        return ipaddress.ip_address("169.254.169.254") in ipaddress.ip_network(network)
    except ValueError:
        return False


RULES: tuple[Callable[[], Sequence[CheckMessage]], ...] = (
    key_ring,
    secret_key,
    base_url,
    loopback_egress,
    stdio,
    hosts,
    cors,
    metadata_egress,
    unknown_settings,
)
