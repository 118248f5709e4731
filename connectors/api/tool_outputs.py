"""What the endpoints of connectors answer about tools and changes of their definitions."""

from __future__ import annotations

from rest_framework import serializers

from connectors.api.inputs import DEFINITION_POLICIES
from connectors.definitions import Standing, definition_of
from connectors.selectors import ToolView
from mcphub.api.serializers import Output
from mcphub.core.types import JSONObject

JSON = serializers.JSONField
TEXT = serializers.CharField


class SourceRefOutput(Output):
    server_id = TEXT()
    name = TEXT()


class DefinitionOutput(Output):
    """How the definition relates to the approved one; a blocked tool cannot be called."""

    digest = TEXT()
    standing = serializers.ChoiceField(choices=[one.value for one in Standing])
    policy = serializers.ChoiceField(choices=DEFINITION_POLICIES)
    blocked = serializers.BooleanField()


class ToolChangeOutput(Output):
    """A tool whose definition waits to be looked at."""

    server_id = TEXT()
    name = TEXT()
    public_name = TEXT()
    definition = DefinitionOutput()
    approved = JSON(allow_null=True, help_text="The approved definition; null for a new tool.")
    current = JSON()


class ToolOutput(Output):
    """A tool as its server describes it, with every field kept, and what the hub adds."""

    name = TEXT()
    title = TEXT(required=False)
    description = TEXT(required=False)
    input_schema = JSON(required=False)
    output_schema = JSON(required=False)
    annotations = JSON(required=False)
    public_name = TEXT(help_text="Unique for the member, stable, fit for every model provider.")
    enabled = serializers.BooleanField()
    original_description = TEXT(
        required=False, allow_null=True, help_text="There when the user's own is shown instead."
    )
    definition = DefinitionOutput()
    source = SourceRefOutput()  # type: ignore[assignment]  # a field of this name
    trusted = serializers.BooleanField(help_text="Always false: a stranger wrote the texts.")


def tool_change(tool: ToolView) -> JSONObject:
    return {
        "serverId": tool.server,
        "name": tool.name,
        "publicName": tool.public_name,
        "definition": tool.wire["definition"],
        "approved": tool.approved_definition,
        "current": definition_of(tool.item),
    }
