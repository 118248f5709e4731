"""From a connection to the ServerSpec that the session host opens; the only place that unseals."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from connectors import oauth_choices
from connectors.models import Connection, Connector, CustomServer
from connectors.models.sealed import open_json
from connectors.selectors.connections import server_of
from connectors.selectors.views import RelayView
from connectors.server_spec import AuthType, Era, Relay, ServerSpec, StoredSession, Transport
from mcphub.core.crypto import CredentialUnreadableError, Secret
from mcphub.core.types import JSONObject, JSONValue
from oauth.server_auth import ServerAuth
from tracing.secrets import KnownSecrets

SHORTEST_KEPT = 8
NOBODY = uuid.UUID(int=0)


def spec_for(connection: Connection) -> ServerSpec:
    """Return what opening this connection needs. Raises CredentialUnreadableError.

    The member's credentials win over the operator's. No query when the server is loaded.
    """
    server = server_of(connection)
    secrets: JSONObject = {}
    command: tuple[str, ...] = ()
    if isinstance(server, Connector):
        secrets = open_json(server, "sealed_secrets")
        command = tuple(server.command or ())
    headers = {**_secrets(secrets.get("headers")), **_user_headers(connection, server)}
    era = connection.era or server.detected_era
    return ServerSpec(
        connection_id=connection.pk,
        tenant_id=connection.tenant_id,
        member_id=connection.member_id,
        slug=connection.slug,
        url=server.url,
        transport=Transport(server.transport),
        command=command,
        environment=_secrets(secrets.get("environment")),
        headers=headers,
        oauth=_oauth(connection, server, secrets),
        era_hint=Era(era) if era else None,
        connect_timeout=server.connect_timeout,
        call_timeout=server.call_timeout,
        relays=frozenset(
            relay for relay, terms in relays_of(connection).items() if terms.is_declared
        ),
        stored_session=_stored_session(connection),
    )


def relays_of(connection: Connection) -> Mapping[Relay, RelayView]:
    """Return what may be relayed to the member, and what the member lets through."""
    server = server_of(connection)
    return {
        Relay.ELICITATION: RelayView(
            is_offered=server.relay_elicitation, is_consented=connection.consents_elicitation
        ),
        Relay.SAMPLING: RelayView(
            is_offered=server.relay_sampling, is_consented=connection.consents_sampling
        ),
        Relay.ROOTS: RelayView(
            is_offered=server.relay_roots, is_consented=connection.consents_roots
        ),
    }


def spec_of_preset(connector: Connector) -> ServerSpec:
    """Return what trying a preset needs: the operator's secrets and nobody's own."""
    return spec_for(
        Connection(
            connector=connector,
            slug=connector.slug,
            tenant_id=connector.tenant_id or NOBODY,
            member_id=NOBODY,
        )
    )


def _stored_session(connection: Connection) -> StoredSession | None:
    """Return the session to go on with; one that cannot be read is opened anew instead."""
    try:
        stored = open_json(connection, "sealed_session")
        return StoredSession(**stored) if stored else None  # type: ignore[arg-type]  # our own JSON
    except (CredentialUnreadableError, TypeError):
        return None


def signs_in(connection: Connection) -> bool:
    """Whether this connection is authorized by a grant."""
    kind = server_of(connection).auth_type
    return kind == AuthType.OAUTH or (kind == AuthType.NONE and connection.signs_in)


def _oauth(
    connection: Connection, server: Connector | CustomServer, secrets: JSONObject
) -> ServerAuth | None:
    if not signs_in(connection):
        return None
    own = open_json(connection, "sealed_credentials")
    given = secrets.get("oauth")
    return oauth_choices.read(
        server.auth_config, {**(given if isinstance(given, dict) else {}), **own}, url=server.url
    )


def secret_texts(spec: ServerSpec) -> list[str]:
    """Every secret of a spec, for the redaction of traces."""
    values = [secret.value for secret in (*spec.headers.values(), *spec.environment.values())]
    bare = [value.split(" ", 1)[1] for value in values if value.lower().startswith("bearer ")]
    return [*values, *bare, *spec.tokens]


def kept_secrets(spec: ServerSpec) -> KnownSecrets:
    """Return the secrets of a spec that must not be in what is kept of its server.

    Short values are left alone there: they are no secrets, and words of descriptions and names.
    """
    return KnownSecrets(text for text in secret_texts(spec) if len(text) >= SHORTEST_KEPT)


def _user_headers(connection: Connection, server: Connector | CustomServer) -> Mapping[str, Secret]:
    if server.auth_type in {AuthType.NONE, AuthType.OAUTH}:
        return {}
    credentials = open_json(connection, "sealed_credentials")
    token = credentials.get("token")
    if server.auth_type == AuthType.BEARER and isinstance(token, str):
        return {"Authorization": Secret(f"Bearer {token}")}
    return _secrets(credentials.get("headers"))


def _secrets(value: JSONValue) -> dict[str, Secret]:
    if not isinstance(value, dict):
        return {}
    return {name: Secret(text) for name, text in value.items() if isinstance(text, str)}
