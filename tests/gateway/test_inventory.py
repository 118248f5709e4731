"""The inventory: two matrices out of the decision that sessions are answered with."""

from __future__ import annotations

import json
from typing import Any

import pytest

from connectors.models import Connection
from tests.fakes.mcp_servers import Kind
from tests.gateway.hub import Hub, Legacy, Modern
from tests.world import World

PATH = "/api/v1/gateway/inventory"


def read(hub: Hub, **query: str) -> dict[str, Any]:
    answer = hub.client().get(PATH, params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def cells(inventory: dict[str, Any], matrix: str, server: str) -> dict[str, Any]:
    return {row["capability"]: row["sources"][server] for row in inventory[matrix]}


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25", "2024-11-05"])
def test_the_inventory_says_what_a_session_of_that_client_is_told(hub: Hub, version: str) -> None:
    hub.add("old", Kind.LEGACY)
    hub.add("new", Kind.MODERN)
    offered: dict[str, Any] = {"sampling": {}}

    found = read(hub, version=version, client=json.dumps(offered))

    if version == "2026-07-28":
        client = Modern(client=hub.client(), capabilities=offered)
        told = client.result("server/discover")
    else:
        told = Legacy(client=hub.client(), version=version, capabilities=offered).open().opened
    assert found["advertised"] == told["capabilities"]
    gaps = told["_meta"]["mcphub/inventory"]
    for matrix in ("serverCapabilities", "clientCapabilities"):
        missing = {
            (row["capability"], server)
            for row in found[matrix]
            for server, cell in row["sources"].items()
            if cell["declared"] and not cell["relayed"]
        }
        assert {(one["capability"], one["server"]) for one in gaps[matrix]} == missing
        assert all(one["whyNot"] in found["reasons"] for one in gaps[matrix])


def test_consent_and_the_client_decide_what_a_server_may_ask(hub: Hub) -> None:
    row = hub.add("one", Kind.MODERN)

    everything = cells(read(hub), "clientCapabilities", "one")
    assert everything["elicitation.form"]["relayed"] is True
    assert everything["sampling"]["whyNot"] == "no_consent"
    nothing = cells(read(hub, client="{}"), "clientCapabilities", "one")
    assert (nothing["elicitation"]["declared"], nothing["elicitation"]["answeredHere"]) == (
        False,
        True,
    )
    Connection.unscoped.filter(pk=row.pk).update(consents_elicitation=False)
    refused = cells(read(hub), "clientCapabilities", "one")
    assert refused["elicitation"]["whyNot"] == "no_consent"
    assert read(hub)["sources"][0]["askable"].get("elicitation") is None


def test_a_server_that_is_away_is_named_with_what_is_missing(hub: Hub) -> None:
    row = hub.add("one", Kind.MODERN)
    Connection.unscoped.filter(pk=row.pk).update(state="error")
    found = read(hub)
    assert found["sources"][0]["state"] == "error"
    assert found["sources"][0]["advertised"] == {}
    assert cells(found, "serverCapabilities", "one")["tools"] == {
        "declared": True,
        "relayable": True,
        "relayed": False,
        "whyNot": "not_connected",
        "answeredHere": False,
    }


@pytest.mark.parametrize("client", ["[]", "{", "7"])
def test_a_client_that_is_no_object_is_refused(hub: Hub, client: str) -> None:
    answer = hub.client().get(PATH, params={"client": client})
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "/client")


def test_somebody_elses_server_is_not_there(hub: Hub, world: World) -> None:
    hub.add("one", Kind.MODERN)
    bob = hub.client(world.bob)
    assert bob.get(PATH).json()["sources"] == []
    assert bob.get(PATH, params={"server": "one"}).status_code == 404
    assert [each["server"] for each in read(hub, server="one")["sources"]] == ["one"]
