"""Makes logins of MCP clients without their flow, for tests of what comes after."""

from __future__ import annotations

from gateway.login import logins
from gateway.login.logins import Consent
from gateway.login.models import ClientLogin, DownstreamClient
from tenants.credentials import hash_of
from tests import factories
from tests.world import Person


def make_client(name: str = "Probe") -> DownstreamClient:
    client = DownstreamClient(
        name=name,
        redirect_uris="http://127.0.0.1/callback",
        client_type=DownstreamClient.CLIENT_PUBLIC,
        authorization_grant_type=DownstreamClient.GRANT_AUTHORIZATION_CODE,
        registration_source=DownstreamClient.RegistrationSource.DCR,
    )
    client.save()
    return client


def make_login(person: Person, client: DownstreamClient | None = None) -> ClientLogin:
    """Return a login whose code was redeemed."""
    consent = Consent(
        member=person.member,
        client=client or make_client(),
        scopes=("servers:read", "tools:call"),
        endpoint="/mcp",
    )
    digest = hash_of(factories.unique("code"))
    login = logins.begin(consent, code_digest=digest)
    assert logins.redeem(digest) == login.pk
    login.refresh_from_db()
    return login
