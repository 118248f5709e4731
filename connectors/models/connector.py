"""Connector: a preset of an upstream server, declared by the operator (global) or by one tenant."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.db.models import Q

from connectors.models.server_fields import ServerFields
from connectors.server_spec import Transport
from mcphub.core import ids
from tenants.principal import Principal
from tenants.scoping import TenantRequiredError


class ConnectorManager(models.Manager["Connector"]):
    """As TenantManager, plus the operator's global presets."""

    def get_queryset(self) -> Any:
        raise TenantRequiredError("Connector: say whose rows are meant: .objects.of(principal)")

    def of(self, principal: Principal) -> models.QuerySet[Connector]:
        """Presets that the principal's tenant can see: its own and the global ones."""
        visible = Q(tenant_id=principal.tenant_id) | Q(tenant__isnull=True)
        return super().get_queryset().filter(visible)


class Connector(ServerFields):
    """`tenant` NULL: global. `sealed_secrets` opens to {"headers": {…}, "environment": {…}}."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    tenant = models.ForeignKey(
        "tenants.Tenant", on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    slug = models.SlugField(max_length=24)
    icon = models.CharField(max_length=2000, blank=True)
    description = models.CharField(max_length=500, blank=True)
    command = models.JSONField(
        default=list,
        blank=True,
        help_text='stdio only, operator presets only: ["program", "argument"].',
    )
    sealed_secrets = models.BinaryField(null=True, blank=True, editable=False)
    order = models.PositiveIntegerField(default=100)
    is_enabled = models.BooleanField(default=True)
    may_replay_reads = models.BooleanField(
        default=False,
        help_text="Allow a second attempt of a sent call if the tool is read-only or idempotent.",
    )

    unscoped = models.Manager()
    objects = ConnectorManager()

    class Meta:
        base_manager_name = "unscoped"
        default_manager_name = "unscoped"
        ordering: ClassVar = ["order", "name"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["slug"], condition=Q(tenant__isnull=True), name="global_connector_slug"
            ),
            models.UniqueConstraint(fields=["tenant", "slug"], name="tenant_connector_slug"),
            models.CheckConstraint(
                condition=Q(tenant__isnull=True) | ~Q(transport=Transport.STDIO.value),
                name="stdio_only_by_operator",
            ),
        ]

    def __str__(self) -> str:
        return self.name
