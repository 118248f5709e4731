"""Connection: one member at one server, named; and the timeline that explains its state."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from connectors.definitions import DefinitionPolicy
from connectors.states import State
from mcphub.core import ids
from tenants.scoping import TenantScoped


class Connection(TenantScoped):
    """State moves only by `services.connections.transition`; the lease is (`held_by`, `epoch`)."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    member = models.ForeignKey("tenants.Membership", on_delete=models.CASCADE, related_name="+")
    connector = models.ForeignKey(
        "connectors.Connector", on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    custom_server = models.ForeignKey(
        "connectors.CustomServer", on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    slug = models.SlugField(max_length=24, help_text="The public server id, unique for the member.")
    name = models.CharField(max_length=120)
    state = models.CharField(
        max_length=14, choices=[(s.value, s.value) for s in State], default=State.DISCONNECTED.value
    )
    is_wanted = models.BooleanField(
        default=False, help_text="The member wants this to be connected."
    )
    attempt = models.PositiveSmallIntegerField(default=0)
    next_retry_at = models.DateTimeField(null=True, blank=True)
    connected_at = models.DateTimeField(null=True, blank=True)
    last_error = models.JSONField(null=True, blank=True)
    sealed_credentials = models.BinaryField(null=True, blank=True, editable=False)
    sealed_session = models.BinaryField(null=True, blank=True, editable=False)
    signs_in = models.BooleanField(
        default=False, help_text="A server without set authentication has asked for OAuth."
    )
    consents_elicitation = models.BooleanField(default=True)
    consents_sampling = models.BooleanField(default=False)
    consents_roots = models.BooleanField(default=False)
    return_url = models.CharField(max_length=2000, blank=True, editable=False)
    redirect_uri = models.CharField(
        max_length=2000, blank=True, editable=False, help_text="Of the app that asked to connect."
    )
    browser_hash = models.CharField(
        max_length=64, blank=True, editable=False, help_text="Of the browser that asked to connect."
    )
    held_by = models.CharField(max_length=80, blank=True)
    epoch = models.PositiveBigIntegerField(default=0)
    transport_used = models.CharField(max_length=20, blank=True)
    era = models.CharField(max_length=6, blank=True)
    protocol_version = models.CharField(max_length=20, blank=True)
    server_info = models.JSONField(default=dict, blank=True)
    capabilities = models.JSONField(default=dict, blank=True)
    instructions = models.TextField(blank=True)
    log_level = models.CharField(max_length=9, blank=True)
    definition_policy = models.CharField(
        max_length=5,
        choices=[(p.value, p.value) for p in DefinitionPolicy],
        default=DefinitionPolicy.WARN.value,
        help_text="The member's own; the stricter one of it and the server's counts.",
    )
    catalog_version = models.PositiveBigIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta(TenantScoped.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "member", "slug"], name="server_id_per_member"
            ),
            models.CheckConstraint(
                condition=Q(connector__isnull=True) ^ Q(custom_server__isnull=True),
                name="connection_to_one_server",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["held_by"], name="connection_by_holder"),
            models.Index(fields=["is_wanted", "state"], name="connection_wanted"),
        ]

    def __str__(self) -> str:
        return f"{self.slug} ({self.state})"


class TimelineEntry(TenantScoped):
    """One step of a connection's life (transport tried, era, error), without upstream text."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    connection = models.ForeignKey(Connection, on_delete=models.CASCADE, related_name="timeline")
    at = models.DateTimeField()
    kind = models.CharField(max_length=40)
    detail = models.JSONField(default=dict)

    class Meta(TenantScoped.Meta):
        indexes: ClassVar = [models.Index(fields=["connection", "-id"], name="timeline_newest")]

    def __str__(self) -> str:
        return self.kind
