"""The selected union: nothing is advertised or asked that the table of relayed kinds lacks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from connectors.server_spec import Era, Relay
from connectors.started_tasks import TASKS_EXTENSION
from gateway.projection.capabilities import (
    EXPLANATIONS,
    Client,
    Source,
    Why,
    askable,
    client_cells,
    offered,
    server_cells,
)
from gateway.projection.kinds import CLIENT_KINDS, SERVER_KINDS, UI_EXTENSION
from mcphub.core.types import JSONObject, JSONValue
from tests.gateway.projection.strategies import slugs

LEGACY = Client(version="2025-11-25", capabilities={"elicitation": {}, "sampling": {}, "roots": {}})
MODERN = Client(version="2026-07-28", capabilities={"elicitation": {"url": {}}})
SERVER_WORDS = sorted({key for path in SERVER_KINDS for key in path} | {"experimental", "x/y"})
CLIENT_WORDS = sorted({key for path in CLIENT_KINDS for key in path} | {"tasks", "x/y"})


def capabilities_of(words: list[str]) -> st.SearchStrategy[JSONObject]:
    values: st.SearchStrategy[JSONValue] = st.recursive(
        st.sampled_from([True, False, None, 1, "odd"]) | st.just({}),
        lambda inner: st.dictionaries(st.sampled_from(words), inner, max_size=4),
        max_leaves=10,
    )
    return st.dictionaries(st.sampled_from(words), values, max_size=6)


clients = st.builds(
    Client,
    version=st.sampled_from([*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS]),
    capabilities=capabilities_of(CLIENT_WORDS),
)
relays = st.frozensets(st.sampled_from(Relay))
sources = st.builds(
    Source,
    server=slugs,
    era=st.sampled_from(Era),
    capabilities=capabilities_of(SERVER_WORDS),
    is_connected=st.booleans(),
    switches=relays,
    consents=relays,
)


def paths_of(capabilities: JSONValue, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every member that is declared; what is inside an extension is the extension's own."""
    if not isinstance(capabilities, dict) or (len(path) == 2 and path[0] == "extensions"):
        return
    for key, value in capabilities.items():
        if path or key != "extensions":
            yield (*path, key)
        yield from paths_of(value, (*path, key))


@given(st.lists(sources, max_size=4, unique_by=lambda each: each.server), clients)
def test_nothing_is_advertised_that_is_not_relayed_from_some_source(
    selected: list[Source], client: Client
) -> None:
    relayed = {
        cell.path for source in selected for cell in server_cells(source, client) if cell.is_relayed
    }
    own = {("tools",)} | {(name, "listChanged") for name in ("tools", "resources", "prompts")}
    alone = set(paths_of(offered(selected, client, is_aggregate=False)))
    together = set(paths_of(offered(selected, client, is_aggregate=True)))
    assert alone <= relayed <= SERVER_KINDS.keys()
    assert together <= relayed | own


@given(sources, clients)
def test_a_server_may_ask_only_what_client_switch_and_consent_allow(
    source: Source, client: Client
) -> None:
    for path in paths_of(askable(source, client)):
        kind = CLIENT_KINDS[path]
        assert kind.relay is None or kind.relay in source.switches & source.consents
        assert path[0] in client.capabilities
        assert (source.era, client.era) in kind.pairs


@given(sources, clients)
def test_every_cell_says_either_that_it_is_relayed_or_why_not(
    source: Source, client: Client
) -> None:
    for cell in [*server_cells(source, client), *client_cells(source, client)]:
        assert cell.is_relayed == (cell.why_not is None)
        assert not cell.is_relayed or (cell.is_declared and cell.is_relayable)


@given(sources, clients)
def test_every_known_and_every_declared_capability_has_one_cell(
    source: Source, client: Client
) -> None:
    for cells, known, declared in (
        (server_cells(source, client), SERVER_KINDS, source.capabilities),
        (client_cells(source, client), CLIENT_KINDS, client.capabilities),
    ):
        paths = [cell.path for cell in cells]
        assert len(set(paths)) == len(paths)
        assert set(known) <= set(paths)
        named = {key for key, value in declared.items() if value is not None and value is not False}
        assert named - {"extensions", "experimental"} <= {path[0] for path in paths}


def test_every_reason_has_an_explanation() -> None:
    assert EXPLANATIONS.keys() == set(Why)


@pytest.mark.parametrize("client", [LEGACY, MODERN])
def test_the_aggregate_announces_changes_of_its_lists_and_one_server_only_what_it_declares(
    client: Client,
) -> None:
    source = Source(server="docs", era=Era.LEGACY, capabilities={"tools": {}, "prompts": {}})
    assert offered([source], client, is_aggregate=False) == {"tools": {}, "prompts": {}}
    assert offered([source], client, is_aggregate=True) == {
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
    }
    assert offered([], client, is_aggregate=True) == {"tools": {"listChanged": True}}


def test_each_form_of_tasks_is_offered_to_its_own_era_only() -> None:
    core: JSONObject = {"tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}}
    extension: JSONObject = {"extensions": {TASKS_EXTENSION: {}, UI_EXTENSION: {"a": 1}, "x/y": {}}}
    both = [
        Source(server="old", era=Era.LEGACY, capabilities=core),
        Source(server="new", era=Era.MODERN, capabilities=extension),
    ]
    ui: JSONObject = {UI_EXTENSION: {"a": 1}}
    assert offered(both, LEGACY, is_aggregate=False) == {**core, "extensions": ui}
    assert offered(both, MODERN, is_aggregate=False) == {"extensions": {TASKS_EXTENSION: {}, **ui}}
    older = Client(version="2025-06-18")
    assert offered(both, older, is_aggregate=False) == {"extensions": ui}


def test_a_disconnected_server_contributes_nothing_and_says_so() -> None:
    source = Source(server="docs", era=Era.LEGACY, capabilities={"prompts": {}}, is_connected=False)
    assert offered([source], LEGACY, is_aggregate=False) == {}
    cell = next(each for each in server_cells(source, LEGACY) if each.capability == "prompts")
    assert cell.why_not is Why.NOT_CONNECTED


def test_an_empty_elicitation_capability_means_forms() -> None:
    source = Source(
        server="docs",
        era=Era.MODERN,
        capabilities={},
        switches=frozenset(Relay),
        consents=frozenset({Relay.ELICITATION}),
    )
    assert askable(source, LEGACY) == {"elicitation": {"form": {}}}
    assert askable(source, MODERN) == {"elicitation": {"url": {}}}
    reasons = {cell.capability: cell.why_not for cell in client_cells(source, LEGACY)}
    assert reasons["sampling"] is Why.NO_CONSENT
    assert reasons["elicitation.url"] is Why.NOT_DECLARED


def test_a_question_that_the_client_cannot_answer_is_answered_in_the_inbox() -> None:
    source = Source(
        server="docs",
        era=Era.LEGACY,
        capabilities={},
        switches=frozenset({Relay.ELICITATION, Relay.ROOTS}),
        consents=frozenset({Relay.ELICITATION}),
    )
    cells = {cell.capability: cell for cell in client_cells(source, Client(version="2025-11-25"))}
    assert cells["elicitation"].is_answered_here
    assert not cells["sampling"].is_answered_here
    assert not cells["roots"].is_answered_here
