"""The selected union: what is advertised to a client, and what a server may ask of it. Pure.

The only place that decides. Advertised is what a selected server declares *and* `kinds` says is
relayed for this pair of eras; a client is asked what it offers *and* the server's relay switch and
its user's consent allow. The cells behind each decision are what the inventory shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from connectors.server_spec import CAPABILITIES, Era, Relay
from gateway.projection.kinds import CLIENT_KINDS, OPEN_GROUPS, SERVER_KINDS, Kind, Path
from mcphub.core.types import JSONObject, JSONValue

LISTS = ("tools", "resources", "prompts")
DEEPEST = 6
"""Levels of declared capabilities that are looked at; the known ones have five."""

_OPEN = frozenset((group,) for group in OPEN_GROUPS)


class Why(StrEnum):
    """Why something is not relayed."""

    NOT_DECLARED = "not_declared"
    NOT_CONNECTED = "not_connected"
    NOT_KNOWN = "not_known"
    OTHER_ERA = "other_era"
    OLDER_CLIENT = "older_client"
    RELAY_OFF = "relay_off"
    NO_CONSENT = "no_consent"


EXPLANATIONS: Mapping[Why, str] = {
    Why.NOT_DECLARED: "It is not declared, so nothing is there to relay.",
    Why.NOT_CONNECTED: "The server is not connected.",
    Why.NOT_KNOWN: "The hub does not know what this needs, so it does not promise it.",
    Why.OTHER_ERA: "The client's and the server's protocol revisions have no common form of it.",
    Why.OLDER_CLIENT: "The client's protocol revision does not know it.",
    Why.RELAY_OFF: "The relay switch of the server is off.",
    Why.NO_CONSENT: "The user has not consented to it for this server.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A downstream client: its revision and what it declares."""

    version: str
    capabilities: JSONObject = field(default_factory=dict)

    @property
    def era(self) -> Era:
        return Era.MODERN if self.version in MODERN_PROTOCOL_VERSIONS else Era.LEGACY


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A selected server: what it declares, and which of its requests may be taken to clients."""

    server: str
    era: Era
    capabilities: JSONObject
    is_connected: bool = True
    switches: frozenset[Relay] = frozenset()
    consents: frozenset[Relay] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One capability of one source. Exactly one of `is_relayed` and `why_not` says something.

    `is_answered_here`: a server's request goes to the hub's inbox where the client cannot answer.
    """

    server: str
    path: Path
    is_declared: bool
    is_relayable: bool
    is_relayed: bool
    why_not: Why | None
    is_answered_here: bool = False

    @property
    def capability(self) -> str:
        return ".".join(self.path)


def server_cells(source: Source, client: Client) -> list[Cell]:
    """Return a cell for every capability that the hub knows or this server declares."""
    declared = dict(_leaves(source.capabilities))
    paths = list(dict.fromkeys([*SERVER_KINDS, *declared]))
    return [_server_cell(source, client, path, is_declared=path in declared) for path in paths]


def client_cells(source: Source, client: Client) -> list[Cell]:
    """Return a cell for every capability of clients that the hub knows or this client declares."""
    declared = dict(_leaves(_spelled_out(client.capabilities)))
    paths = list(dict.fromkeys([*CLIENT_KINDS, *declared]))
    return [_client_cell(source, client, path, is_declared=path in declared) for path in paths]


def offered(sources: Iterable[Source], client: Client, *, is_aggregate: bool) -> JSONObject:
    """Return the capabilities to advertise to a client.

    The aggregate endpoint always lists tools, if only none, and says when its lists change: that is
    the hub's own doing, as servers come and go.
    """
    made: JSONObject = {"tools": {"listChanged": True}} if is_aggregate else {}
    for source in sources:
        declared = dict(_leaves(source.capabilities))
        for cell in server_cells(source, client):
            if cell.is_relayed:
                value = _value(SERVER_KINDS[cell.path], cell.path, declared[cell.path])
                _put(made, cell.path, value)
    if is_aggregate:
        for name in LISTS:
            if name in made:
                _put(made, (name, "listChanged"), value=True)
    return made


def askable(source: Source, client: Client) -> JSONObject:
    """Return what of the client's capabilities a server may use in a request of this client."""
    declared = dict(_leaves(_spelled_out(client.capabilities)))
    made: JSONObject = {}
    for cell in client_cells(source, client):
        if cell.is_relayed:
            value = _value(CLIENT_KINDS[cell.path], cell.path, declared[cell.path])
            _put(made, cell.path, value)
    return made


def _server_cell(source: Source, client: Client, path: Path, *, is_declared: bool) -> Cell:
    barrier = _barrier(SERVER_KINDS.get(path), source, client)
    why_not = barrier
    if not is_declared:
        why_not = Why.NOT_DECLARED
    elif why_not is None and not source.is_connected:
        why_not = Why.NOT_CONNECTED
    return Cell(
        server=source.server,
        path=path,
        is_declared=is_declared,
        is_relayable=barrier is None,
        is_relayed=why_not is None,
        why_not=why_not,
    )


def _client_cell(source: Source, client: Client, path: Path, *, is_declared: bool) -> Cell:
    kind = CLIENT_KINDS.get(path)
    refusal = _refusal(kind, path, source)
    barrier = _barrier(kind, source, client) or refusal
    why_not = barrier if is_declared else Why.NOT_DECLARED
    if why_not is None and not source.is_connected:
        why_not = Why.NOT_CONNECTED
    relay = kind.relay if kind else None
    return Cell(
        server=source.server,
        path=path,
        is_declared=is_declared,
        is_relayable=barrier is None,
        is_relayed=why_not is None,
        why_not=why_not,
        is_answered_here=(
            relay is not None and refusal is None and why_not is not None and source.is_connected
        ),
    )


def _barrier(kind: Kind | None, source: Source, client: Client) -> Why | None:
    """Return what of the protocol stands between this server and this client."""
    if kind is None:
        return Why.NOT_KNOWN
    if (source.era, client.era) not in kind.pairs:
        return Why.OTHER_ERA
    return Why.OLDER_CLIENT if client.version < kind.since else None


def _refusal(kind: Kind | None, path: Path, source: Source) -> Why | None:
    """Return what of the server's settings forbids it to use a capability of clients."""
    if kind is None or kind.relay is None:
        return None
    if not _contains({kind.relay.value: dict(CAPABILITIES[kind.relay])}, path):
        return Why.NOT_KNOWN
    if kind.relay not in source.switches:
        return Why.RELAY_OFF
    return None if kind.relay in source.consents else Why.NO_CONSENT


def _spelled_out(capabilities: JSONObject) -> JSONObject:
    """Return client capabilities in which `elicitation: {}` says what it means: forms."""
    asked = capabilities.get("elicitation")
    if isinstance(asked, dict) and "form" not in asked and "url" not in asked:
        return {**capabilities, "elicitation": {**asked, "form": {}}}
    return capabilities


def _leaves(declared: JSONValue, path: Path = ()) -> Iterator[tuple[Path, JSONValue]]:
    """Yield every declared member, groups before what is in them; `false` and null are not."""
    if not isinstance(declared, dict) or len(path) == DEEPEST:
        return
    for key, value in declared.items():
        here = (*path, key)
        if value is None or value is False:
            continue
        if here not in _OPEN:
            yield here, value
        if not _is_extension(here):
            yield from _leaves(value, here)


def _is_extension(path: Path) -> bool:
    """Whether this is named by whoever declares it, and so is all that is in it."""
    return len(path) > 1 and path[0] in OPEN_GROUPS


def _value(kind: Kind, path: Path, declared: JSONValue) -> JSONValue:
    """Return a group to be filled, a flag, or the settings of an extension as declared."""
    if kind.is_flag:
        return True
    return dict(declared) if _is_extension(path) and isinstance(declared, dict) else {}


def _put(made: JSONObject, path: Path, value: JSONValue) -> None:
    """Set a member, with the groups above it; what is there is kept."""
    holder = made
    for key in path[:-1]:
        inner = holder.setdefault(key, {})
        if not isinstance(inner, dict):
            return
        holder = inner
    holder.setdefault(path[-1], value)


def _contains(capabilities: JSONObject, path: Sequence[str]) -> bool:
    found: JSONValue = capabilities
    for key in path:
        if not isinstance(found, dict) or key not in found:
            return False
        found = found[key]
    return True
