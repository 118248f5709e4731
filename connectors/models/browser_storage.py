"""BrowserRecord: what a react-mcp front end keeps in the hub instead of in the browser; sealed."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from mcphub.core import ids
from tenants.scoping import TenantScoped


class BrowserRecord(TenantScoped):
    """`key` is `custom-servers` or `auth:{id}`; the hub never reads what is inside."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    member = models.ForeignKey("tenants.Membership", on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)
    sealed_value = models.BinaryField(editable=False)
    digest = models.CharField(max_length=64)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta(TenantScoped.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "member", "key"], name="browser_record_once")
        ]

    def __str__(self) -> str:
        return self.key
