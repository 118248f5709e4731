"""Tenants, their members, and the credentials with which the hub itself is used (all hashed)."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import Q

from mcphub.core import ids
from tenants.scoping import TenantScoped


class User(AbstractUser):
    """A person who can log in to the admin site and the console."""


class Tenant(models.Model):
    """The isolation unit; limits are per tenant (security reference W07)."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    slug = models.SlugField(max_length=40, unique=True)
    name = models.CharField(max_length=120)
    is_active = models.BooleanField(default=True)
    allowed_origins = models.JSONField(
        default=list, blank=True, help_text="Web origins that may call the API from a browser."
    )
    max_connections = models.PositiveIntegerField(default=200)
    max_custom_servers = models.PositiveIntegerField(default=200)
    max_concurrent_calls = models.PositiveIntegerField(default=512)
    calls_per_minute = models.PositiveIntegerField(default=6000)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class Role(models.TextChoices):
    OWNER = "owner"
    ADMIN = "admin"
    MEMBER = "member"
    END_USER = "end_user"


class Membership(TenantScoped):
    """One person in one tenant: who logs in (`user`) or an app's end user (`external_id`)."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    user = models.ForeignKey(
        User, on_delete=models.CASCADE, null=True, blank=True, related_name="memberships"
    )
    external_id = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001  (NULL is not unique, "" is)
    display_name = models.CharField(max_length=200, blank=True)
    email = models.EmailField(blank=True)
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.MEMBER)
    is_active = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta(TenantScoped.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "user"], name="member_once_per_tenant"),
            models.UniqueConstraint(
                fields=["tenant", "external_id"], name="end_user_once_per_tenant"
            ),
            models.CheckConstraint(
                condition=Q(user__isnull=False) | Q(external_id__isnull=False),
                name="member_is_somebody",
            ),
        ]

    def __str__(self) -> str:
        return self.display_name or self.email or self.external_id or str(self.id)


class ApiKey(TenantScoped):
    """`mhk_<key_id>_<secret>`: SHA-256 of the 256-bit secret at rest, shown once when made."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    member = models.ForeignKey(Membership, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=120)
    key_id = models.CharField(max_length=16, unique=True)
    secret_hash = models.CharField(max_length=64)
    scopes = models.JSONField(default=list)
    is_read_only = models.BooleanField(
        default=False, help_text="Only tools that say they are read-only are listed and callable."
    )
    finds_tools = models.BooleanField(
        default=False, help_text="At /mcp, tools are searched for instead of listed."
    )
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta(TenantScoped.Meta):
        verbose_name = "API key"

    def __str__(self) -> str:
        return f"{self.name} ({self.key_id})"


class Webhook(TenantScoped):
    """Where a tenant hears of its members' connections; one per tenant."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    url = models.CharField(max_length=2000, help_text="An https address of the tenant's app.")
    is_active = models.BooleanField(default=True)
    sealed_secret = models.BinaryField(editable=False)
    sealed_former_secret = models.BinaryField(null=True, blank=True, editable=False)
    former_secret_until = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta(TenantScoped.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant"], name="one_webhook_per_tenant")
        ]

    def __str__(self) -> str:
        return f"webhook of {self.tenant_id}"


class DeliveryStatus(models.TextChoices):
    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class WebhookDelivery(TenantScoped):
    """One message to a tenant's webhook, kept for a while as the log of what was sent."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="+")
    type = models.CharField(max_length=40)
    subject = models.UUIDField(null=True, blank=True, help_text="The connection it is about.")
    change = models.CharField(max_length=20, blank=True)
    body = models.TextField()
    digest = models.CharField(max_length=64, editable=False)
    status = models.CharField(
        max_length=9, choices=DeliveryStatus.choices, default=DeliveryStatus.PENDING
    )
    attempts = models.PositiveSmallIntegerField(default=0)
    next_attempt_at = models.DateTimeField(null=True, blank=True)
    outcome = models.CharField(max_length=40, blank=True, help_text="Of the last attempt.")
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantScoped.Meta):
        verbose_name_plural = "webhook deliveries"
        indexes: ClassVar = [
            models.Index(fields=["status", "next_attempt_at"], name="delivery_due"),
            models.Index(fields=["tenant", "subject", "-id"], name="delivery_by_subject"),
        ]

    def __str__(self) -> str:
        return f"{self.type} {self.id} ({self.status})"


class ConnectSession(TenantScoped):
    """`mhs_…`: a short-lived token with which an app's end user reaches the hub; hashed at rest."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    member = models.ForeignKey(Membership, on_delete=models.CASCADE, related_name="+")
    token_hash = models.CharField(max_length=64, unique=True)
    scopes = models.JSONField(default=list)
    allowed_connectors = models.JSONField(null=True, blank=True)
    allow_custom_servers = models.BooleanField(default=False)
    allowed_origins = models.JSONField(default=list, blank=True)
    return_url = models.CharField(max_length=2000, blank=True)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"connect session {self.id}"
