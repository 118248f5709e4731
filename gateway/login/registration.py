"""Dynamic client registration (RFC 7591): open, bounded, and without anything secret in it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from django.conf import settings
from django.core.exceptions import ValidationError

from gateway.login import logins
from gateway.login.models import DownstreamClient
from mcphub.core.clock import now
from mcphub.core.errors import LimitError
from mcphub.core.types import JSONObject

BODY_MAX = 16 << 10
GRANTS = ["authorization_code", "refresh_token"]
METADATA = "invalid_client_metadata"
REDIRECT = "invalid_redirect_uri"


class RegistrationRefusedError(Exception):
    """The client's metadata cannot be used: an error of RFC 7591 §3.2.2."""

    def __init__(self, error: str, description: str) -> None:
        super().__init__(description)
        self.error = error
        self.description = description


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """What a client says about itself, as far as the hub takes notice of it."""

    name: str
    redirect_uris: tuple[str, ...]


def read(body: bytes) -> Metadata:
    """Read the body of a request. Raises RegistrationRefusedError."""
    try:
        data = json.loads(body) if len(body) <= BODY_MAX else None
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise RegistrationRefusedError(METADATA, "The body is no JSON object of at most 16 KiB.")
    name, redirects = data.get("client_name", ""), data.get("redirect_uris")
    grants = data.get("grant_types", GRANTS[:1])
    if not isinstance(name, str):
        raise RegistrationRefusedError(METADATA, "client_name is no text.")
    if not isinstance(redirects, list) or not all(isinstance(uri, str) for uri in redirects):
        raise RegistrationRefusedError(REDIRECT, "redirect_uris is no list of addresses.")
    if not isinstance(grants, list) or GRANTS[0] not in grants:
        raise RegistrationRefusedError(METADATA, "Only authorization_code is offered here.")
    if any(not uri or uri.split() != [uri] for uri in redirects):
        raise RegistrationRefusedError(REDIRECT, "A redirect URI is empty or holds a space.")
    return Metadata(name=name, redirect_uris=tuple(redirects))


def register(metadata: Metadata) -> JSONObject:
    """Store a client and return what it is told (RFC 7591 §3.2.1).

    Raises RegistrationRefusedError, and LimitError when too many wait for their first login.
    """
    if logins.abandoned().count() >= settings.CLIENT_REGISTRATIONS_MAX:
        raise LimitError("Too many clients wait for their first login.", retry_after=3600)
    client = DownstreamClient(
        name=metadata.name,
        redirect_uris=" ".join(metadata.redirect_uris),
        client_type=DownstreamClient.CLIENT_PUBLIC,
        authorization_grant_type=DownstreamClient.GRANT_AUTHORIZATION_CODE,
        registration_source=DownstreamClient.RegistrationSource.DCR,
    )
    try:
        client.full_clean()
    except ValidationError as exc:
        error = REDIRECT if "redirect_uris" in exc.message_dict else METADATA
        raise RegistrationRefusedError(error, " ".join(exc.messages)) from exc
    client.save()
    return {
        "client_id": client.client_id,
        "client_id_issued_at": int(now().timestamp()),
        "client_name": client.name,
        "redirect_uris": [*client.redirects],
        "grant_types": [*GRANTS],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }
