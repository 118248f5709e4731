"""CustomServer: an upstream server that a member brought along."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from connectors.models.server_fields import ServerFields
from connectors.server_spec import Transport
from mcphub.core import ids
from tenants.scoping import TenantScoped


class CustomServer(TenantScoped, ServerFields):
    """Never stdio: a command line comes from the operator alone.

    Everything may be relayed: the member who brought the server consents to it or not.
    """

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    member = models.ForeignKey("tenants.Membership", on_delete=models.CASCADE, related_name="+")
    relay_sampling = models.BooleanField(default=True)
    relay_roots = models.BooleanField(default=True)

    class Meta(TenantScoped.Meta):
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=~Q(transport=Transport.STDIO.value), name="custom_server_never_stdio"
            )
        ]

    def __str__(self) -> str:
        return self.name
