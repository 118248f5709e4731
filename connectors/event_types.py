"""What the events of connectors look like on the wire (API design §7)."""

from __future__ import annotations

from typing import Literal, TypedDict

from mcphub.core.types import JSONObject, JSONValue

InputChange = Literal["elicitation.created", "elicitation.updated", "elicitation.closed"]


class ServerPayload(TypedDict):
    """The server object of API design §3; `tools` None: unchanged or too large, read REST."""

    id: str
    kind: str
    connector: str | None
    name: str
    url: str
    icon: str | None
    connectionState: str
    nextAction: str | None
    lastError: JSONObject | None
    tools: list[JSONObject] | None
    authorizationUrl: str | None
    pendingElicitations: list[JSONObject]
    auth: JSONObject
    transport: str
    protocolVersion: str | None
    serverInfo: JSONObject
    capabilities: JSONObject
    instructions: str | None
    connectionTimeout: int
    elicitation: bool
    relays: JSONObject
    definitionPolicy: str
    attempt: int
    nextRetryAt: str | None
    connectedAt: str | None
    createdAt: str
    catalogVersion: int


class CallPayload(TypedDict):
    id: str
    server: str
    method: str
    target: str
    status: str
    attempt: int
    isToolError: bool
    problem: JSONObject | None


class ServerStateEvent(TypedDict):
    type: Literal["server.state"]
    server: ServerPayload


class ServerRemovedEvent(TypedDict):
    type: Literal["server.removed"]
    id: str


class ServerAuthorizationEvent(TypedDict):
    """`ending` comes before a person is needed; `auth` has the forecast."""

    type: Literal["server.authorization"]
    id: str
    change: str
    auth: JSONObject


class CallStartedEvent(TypedDict):
    type: Literal["call.started"]
    call: CallPayload


class CallFinishedEvent(TypedDict):
    type: Literal["call.finished"]
    call: CallPayload


class CallWaitEvent(TypedDict):
    """The call waits for answers, which `GET /elicitations` has the questions of, or goes on."""

    type: Literal["call.input_required", "call.resumed"]
    call: CallPayload


class ElicitationEvent(TypedDict):
    """A question without addresses and prompts, which REST has."""

    type: InputChange
    call: str | None
    elicitation: JSONObject


class CallProgressEvent(TypedDict):
    type: Literal["call.progress"]
    id: str
    server: str
    progress: float
    total: float | None
    message: str | None


class CallLogEvent(TypedDict):
    """One logging message; `id` is None when the server does not say which call it is about."""

    type: Literal["call.log"]
    id: str | None
    server: str
    level: str
    logger: str | None
    data: JSONValue


class ToolChangedEvent(TypedDict):
    """Names of the server's tools that came, changed or went; the catalog itself is in REST."""

    type: Literal["tool.changed"]
    id: str
    added: list[str]
    changed: list[str]
    removed: list[str]
    blocked: list[str]
    catalogVersion: int


ConnectorEvent = (
    ServerStateEvent
    | ServerRemovedEvent
    | ServerAuthorizationEvent
    | CallStartedEvent
    | CallFinishedEvent
    | CallWaitEvent
    | ElicitationEvent
    | CallProgressEvent
    | CallLogEvent
    | ToolChangedEvent
)
