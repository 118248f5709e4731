"""Tenant scoping that fails closed: a tenant's rows are reached through a Principal, or not at all.

`Model.objects` refuses every query (sync and async) until it is told whose rows are meant:
`Model.objects.of(principal)`. `Model.unscoped` is for the system's own work (sweeps, admin site,
relations) and named so that it is seen in review.
"""

from __future__ import annotations

from typing import Any, TypeVar

from django.db import models

from tenants.principal import Principal

M_co = TypeVar("M_co", bound=models.Model, covariant=True)


class TenantRequiredError(RuntimeError):
    """Raised by any query on `objects` that does not say whose rows it wants."""


class TenantManager(models.Manager[M_co]):
    """Manager whose only open door is `of`."""

    def get_queryset(self) -> Any:
        raise TenantRequiredError(
            f"{self.model.__name__}: say whose rows are meant: .objects.of(principal)"
        )

    def of(self, principal: Principal) -> models.QuerySet[M_co]:
        """Rows of the principal's tenant."""
        return super().get_queryset().filter(tenant_id=principal.tenant_id)


class TenantScoped(models.Model):
    """Abstract base of every row that belongs to a tenant."""

    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.CASCADE, related_name="+")

    unscoped = models.Manager()
    objects = TenantManager()

    class Meta:
        abstract = True
        base_manager_name = "unscoped"
        default_manager_name = "unscoped"
