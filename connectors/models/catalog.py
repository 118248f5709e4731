"""Catalog: the stored listing of a connection's tools, resources, templates and prompts."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from connectors.definitions import Standing, standing_of
from connectors.models.connection import Connection
from mcphub.core import ids
from tenants.scoping import TenantScoped


class ListingKind(models.TextChoices):
    TOOLS = "tools"
    RESOURCES = "resources"
    TEMPLATES = "resource_templates"
    PROMPTS = "prompts"


class CatalogListing(TenantScoped):
    """One list of one connection. `items` are the server's own objects, every field kept.

    `problems` names what could not be used: [{"index", "name", "reason"}]; `error` is set when the
    last refresh failed.
    """

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    connection = models.ForeignKey(Connection, on_delete=models.CASCADE, related_name="listings")
    kind = models.CharField(max_length=20, choices=ListingKind.choices)
    items = models.JSONField(default=list)
    problems = models.JSONField(default=list)
    is_complete = models.BooleanField(default=True)
    error = models.JSONField(null=True, blank=True)
    ttl_ms = models.PositiveBigIntegerField(null=True, blank=True)
    digest = models.CharField(max_length=64, blank=True)
    fetched_at = models.DateTimeField()

    class Meta(TenantScoped.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["connection", "kind"], name="listing_once")
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.connection_id}"


class CatalogTool(TenantScoped):
    """The stored way back from a public name, with what the hub itself says about a tool."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    member = models.ForeignKey("tenants.Membership", on_delete=models.CASCADE, related_name="+")
    connection = models.ForeignKey(Connection, on_delete=models.CASCADE, related_name="tools")
    name = models.CharField(max_length=500)
    public_name = models.CharField(max_length=64)
    digest = models.CharField(max_length=64)
    approved_digest = models.CharField(
        max_length=64, blank=True, help_text="Of the definition that was approved; empty: none."
    )
    approved_definition = models.JSONField(
        null=True, blank=True, help_text="The approved one, kept while the current one differs."
    )
    description_override = models.TextField(
        blank=True, help_text="Shown instead of the server's own description."
    )
    is_enabled = models.BooleanField(default=True)
    is_listed = models.BooleanField(default=True, help_text="Still in the server's own list.")

    class Meta(TenantScoped.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["connection", "name"], name="tool_once"),
            models.UniqueConstraint(
                fields=["tenant", "member", "public_name"], name="public_name_per_member"
            ),
        ]

    def __str__(self) -> str:
        return self.public_name

    @property
    def standing(self) -> Standing:
        return standing_of(self.digest, self.approved_digest)
