"""Secrets move to the primary key; rows that cannot are counted, not forgotten."""

from __future__ import annotations

import pytest

from connectors.models import Connector
from mcphub.core.crypto import KeyRing
from mcphub.up import rotation

pytestmark = pytest.mark.django_db

OLD, NEW, LOST = (KeyRing.new_key(kid) for kid in ("old", "new", "lost"))


def sealed_connector(slug: str, ring: KeyRing) -> Connector:
    connector = Connector.unscoped.create(slug=slug, name=slug, url="https://mcp.example/mcp")
    owner = f"connectors_connector:{connector.pk}:sealed_secrets"
    connector.sealed_secrets = ring.seal(b"secret", owner=owner)
    connector.save(update_fields=["sealed_secrets"])
    return connector


def test_rotation_finds_the_sealed_columns_of_every_package() -> None:
    found = {f"{c.model._meta.label}.{c.field}" for c in rotation.sealed_columns()}
    assert found >= {
        "connectors.Connector.sealed_secrets",
        "connectors.Connection.sealed_credentials",
        "connectors.ToolCall.sealed_params",
        "connectors.ToolCall.sealed_outcome",
    }


def test_rotation_reseals_under_the_primary_key_and_then_has_nothing_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rotation, "PAGE", 2)
    connectors = [sealed_connector(f"c{number}", KeyRing.parse(OLD)) for number in range(5)]
    ring = KeyRing.parse(f"{NEW},{OLD}")

    assert rotation.rotate(ring) == rotation.Rotation(resealed=5, left=0, unreadable=0)
    assert rotation.rotate(ring) == rotation.Rotation(resealed=0, left=0, unreadable=0)
    for connector in connectors:
        connector.refresh_from_db()
        owner = f"connectors_connector:{connector.pk}:sealed_secrets"
        assert (
            KeyRing.parse(NEW).unseal(bytes(connector.sealed_secrets or b""), owner=owner)
            == b"secret"
        )


def test_rotation_is_not_complete_while_a_row_cannot_be_opened() -> None:
    sealed_connector("readable", KeyRing.parse(OLD))
    sealed_connector("unreadable", KeyRing.parse(LOST))

    result = rotation.rotate(KeyRing.parse(f"{NEW},{OLD}"))

    assert result == rotation.Rotation(resealed=1, left=1, unreadable=1)
    assert not result.is_complete
