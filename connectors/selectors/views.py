"""What the selectors hand out: frozen pictures of servers, tools and where a call goes."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from connectors.definitions import DIGESTED, DefinitionPolicy, Standing, has_read_only_hint
from connectors.selectors.inputs import InputView
from connectors.server_spec import AuthType, Relay
from connectors.states import State
from mcphub.core.types import JSONObject
from oauth.forecast import Forecast
from oauth.selectors import RequestView


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolView:
    """One tool as the server describes it (`item`, every field kept) and what the hub adds."""

    name: str
    public_name: str
    is_enabled: bool
    server: str
    connection_id: uuid.UUID
    item: JSONObject
    digest: str = ""
    is_listed: bool = True
    description_override: str = ""
    standing: Standing = Standing.APPROVED
    policy: DefinitionPolicy = DefinitionPolicy.WARN
    approved_definition: JSONObject | None = None
    """The approved one while the current one differs, as far as it is known."""

    @property
    def is_waiting(self) -> bool:
        """Whether somebody should look at the definition."""
        return self.standing is not Standing.APPROVED

    @property
    def is_blocked(self) -> bool:
        return self.is_waiting and self.policy is DefinitionPolicy.BLOCK

    @property
    def is_offered(self) -> bool:
        """Whether it is part of lists for models: switched on, and once approved under `block`."""
        return self.is_enabled and not (self.is_blocked and self.standing is Standing.NEW)

    @property
    def is_read_only(self) -> bool:
        """Whether it says so, and said so when it was approved."""
        approved = self.approved_definition
        return has_read_only_hint(self.item) and (approved is None or has_read_only_hint(approved))

    @property
    def shown(self) -> JSONObject:
        """The server's own object; with the user's description instead of its own if there is one.

        A blocked change is not shown: what waits for an approval must not reach a model.
        """
        item = self.item
        if self.is_blocked and self.approved_definition is not None:
            kept = {key: value for key, value in item.items() if key not in DIGESTED}
            item = {**kept, **self.approved_definition}
        if self.description_override:
            item = {**item, "description": self.description_override}
        return item

    @property
    def wire(self) -> JSONObject:
        """The tool object of the API: the server's own keys, and ours, which win (P19)."""
        made: JSONObject = {
            **self.shown,
            "publicName": self.public_name,
            "enabled": self.is_enabled,
            "definition": {
                "digest": self.digest,
                "standing": self.standing.value,
                "policy": self.policy.value,
                "blocked": self.is_blocked,
            },
            "source": {"serverId": self.server, "name": self.name},
            "trusted": False,
        }
        if self.description_override:
            own = self.item.get("description")
            made["originalDescription"] = own if isinstance(own, str) else None
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthView:
    type: AuthType
    has_credentials: bool
    header_names: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    granted_scopes: tuple[str, ...] = ()
    signed_in_as: str = ""
    issuer: str = ""
    forecast: Forecast | None = None
    request: RequestView | None = None

    @property
    def wire(self) -> JSONObject:
        """What a member may know of the authorization; the last six are about OAuth."""
        told: JSONObject = {
            "type": self.type.value,
            "hasCredentials": self.has_credentials,
            "headerNames": list(self.header_names),
            "scopes": list(self.scopes),
        }
        if self.type is not AuthType.OAUTH:
            return told
        seen = self.forecast
        forecast: JSONObject | None = None
        if seen is not None:
            forecast = {
                "willRefreshAt": _instant(seen.will_refresh_at),
                "canRefresh": seen.can_refresh,
                "endsAt": _instant(seen.ends_at),
                "reason": seen.reason or None,
            }
        return {
            **told,
            "grantedScopes": list(self.granted_scopes),
            "signedInAs": self.signed_in_as or None,
            "issuer": self.issuer or None,
            "expiresAt": _instant(seen.expires_at) if seen else None,
            "forecast": forecast,
            "authorizationRequest": self._request,
        }

    @property
    def _request(self) -> JSONObject | None:
        asked = self.request
        if asked is None:
            return None
        return {
            "issuer": asked.issuer,
            "scopes": list(asked.scopes),
            "expiresAt": _instant(asked.expires_at),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayView:
    """Whether requests of one kind may be relayed, by the server's switch and by the member."""

    is_offered: bool
    is_consented: bool

    @property
    def is_declared(self) -> bool:
        return self.is_offered and self.is_consented

    @property
    def wire(self) -> JSONObject:
        return {"offered": self.is_offered, "consented": self.is_consented}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerView:
    """A server as one principal sees it (API design §3); `connection_id` None: never used yet."""

    slug: str
    kind: str
    connector: str | None
    name: str
    url: str
    icon: str
    state: State
    last_error: JSONObject | None
    auth: AuthView
    transport: str
    protocol_version: str
    server_info: JSONObject
    capabilities: JSONObject
    instructions: str
    connect_timeout: float
    relays: Mapping[Relay, RelayView]
    definition_policy: DefinitionPolicy
    attempt: int
    next_retry_at: datetime | None
    connected_at: datetime | None
    created_at: datetime
    catalog_version: int
    connection_id: uuid.UUID | None = None
    authorization_url: str | None = None
    tools: tuple[ToolView, ...] = field(default=(), repr=False)
    pending: tuple[InputView, ...] = field(default=(), repr=False)

    @property
    def next_action(self) -> str | None:
        """What would move the connection on."""
        if self.state is State.AUTH_REQUIRED:
            return "authorize"
        if self.state is State.ERROR:
            return "reconnect"
        return "answer_input" if self.pending else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionView:
    """What a call needs to know of its connection, without a row; at most a second old."""

    id: uuid.UUID
    tenant_id: uuid.UUID
    member_id: uuid.UUID
    slug: str
    state: State
    is_wanted: bool
    held_by: str
    epoch: int
    era: str
    catalog_version: int
    call_timeout: float
    connector: str | None = None
    may_replay_reads: bool = False
    log_level: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTarget:
    """Where one call goes; `tool` is None for anything but tools and for an unread catalog."""

    connection: ConnectionView
    tool: ToolView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOutcome:
    """How one server contributed to a listing over several: it is never dropped silently."""

    server: str
    state: State
    tool_count: int
    error: JSONObject | None = None
    problems: tuple[JSONObject, ...] = ()
    fetched_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsOfAll:
    tools: tuple[ToolView, ...]
    sources: tuple[SourceOutcome, ...]


ToolIndex = Mapping[str, ToolView]


def _instant(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
