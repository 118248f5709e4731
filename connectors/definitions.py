"""Definitions of tools: what a digest covers, and what a change of one means (pure; P18).

A server can change what a tool says and does after its user looked at it. The digest shows it;
the policy decides whether the tool can be called before somebody has looked again.
"""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum

from mcphub.core.types import JSONObject, JSONValue

DIGESTED = ("name", "description", "inputSchema", "outputSchema", "annotations")
"""Fields of a tool whose change is a change of its definition."""


class DefinitionPolicy(StrEnum):
    """What follows from a changed definition: it is told, or the tool waits for an approval."""

    WARN = "warn"
    BLOCK = "block"


class Standing(StrEnum):
    """How a tool's definition relates to the one that was approved."""

    APPROVED = "approved"
    CHANGED = "changed"
    NEW = "new"


def definition_of(tool: JSONObject) -> JSONObject:
    """Return the members of a tool that its digest covers."""
    return {key: tool[key] for key in DIGESTED if key in tool}


def digest_of(tool: JSONObject) -> str:
    """Return the SHA-256 of a tool's definition in canonical form."""
    return hashlib.sha256(canonical(definition_of(tool)).encode()).hexdigest()


def canonical(value: JSONValue) -> str:
    """Return the one spelling of a JSON value: sorted keys, no blanks, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def standing_of(digest: str, approved_digest: str) -> Standing:
    if not approved_digest:
        return Standing.NEW
    return Standing.APPROVED if digest == approved_digest else Standing.CHANGED


def stricter(*policies: str) -> DefinitionPolicy:
    """Return the policy that asks for more; nobody can make a server's own one weaker."""
    return DefinitionPolicy.BLOCK if DefinitionPolicy.BLOCK in policies else DefinitionPolicy.WARN


def has_read_only_hint(tool: JSONObject) -> bool:
    """Whether a tool says of itself that it changes nothing."""
    annotations = tool.get("annotations")
    return isinstance(annotations, dict) and annotations.get("readOnlyHint") is True
