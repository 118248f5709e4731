"""Principal: who is acting now. Every service and selector takes one first."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from mcphub.core.errors import NotPermittedError


class Scope(StrEnum):
    """What a credential may do; public names, stable."""

    SERVERS_READ = "servers:read"
    SERVERS_WRITE = "servers:write"
    SERVERS_CONNECT = "servers:connect"
    TOOLS_CALL = "tools:call"
    TRACES_READ = "traces:read"
    CONNECTORS_WRITE = "connectors:write"
    MEMBERS_READ = "members:read"
    MEMBERS_WRITE = "members:write"
    API_KEYS_WRITE = "api_keys:write"
    CONNECT_SESSIONS_WRITE = "connect_sessions:write"
    ACT_AS = "act_as"
    STORAGE_REACT_MCP = "storage:react-mcp"


MEMBER_SCOPES = frozenset(
    {
        Scope.SERVERS_READ,
        Scope.SERVERS_WRITE,
        Scope.SERVERS_CONNECT,
        Scope.TOOLS_CALL,
        Scope.TRACES_READ,
    }
)
ADMIN_SCOPES = frozenset(Scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """One member of one tenant with the scopes of the credential that was shown."""

    tenant_id: uuid.UUID
    member_id: uuid.UUID
    scopes: frozenset[Scope]
    credential: str = ""
    """Kind and public id of the credential (`api_key:ab12…`, `session`), for the audit trail."""
    allowed_connectors: frozenset[str] | None = None
    """Connector slugs that a connect session is limited to; None: all."""
    may_add_servers: bool = True
    allowed_origins: frozenset[str] | None = None
    """Web origins that a connect session is limited to; None: not a browser's credential."""
    is_read_only: bool = False
    """Of the tools, only those that say of themselves that they change nothing."""
    finds_tools: bool = False
    """At the gateway, tools are searched for instead of listed."""
    expires_at: datetime | None = None
    """When the credential ends by itself."""

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes

    def require(self, scope: Scope) -> None:
        """Raise NotPermittedError unless the credential has `scope`."""
        if scope not in self.scopes:
            raise NotPermittedError(
                f"This needs the scope {scope.value!r}.", extra={"requiredScope": scope.value}
            )

    @property
    def event_group(self) -> str:
        """Name of the channel group and event stream of this principal."""
        return f"events.{self.tenant_id.hex}.{self.member_id.hex}"
