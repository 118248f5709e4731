"""What outlives a process: client registrations, pending authorizations, grants, refresh journal.

Every secret is sealed for its row and field. No row points to a package above: a grant knows its
connection only by `subject_key`.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from mcphub.core import ids
from oauth.names import ClientAuthMethod, GrantType, LostReason
from tenants.scoping import TenantScoped


class Source(models.TextChoices):
    """How the hub came to its client, in the order of preference of the MCP specification."""

    PREREGISTERED = "preregistered"
    CIMD = "cimd", "client id metadata document"
    DCR = "dcr", "dynamic registration"


class ClientRegistration(TenantScoped):
    """The hub as client of one issuer for one redirect URI, shared by the tenant's members.

    Rows are never changed into another client: a new registration drops the old row, which grants
    that were issued to it keep using.
    """

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    issuer = models.CharField(max_length=2000)
    redirect_uri = models.CharField(max_length=2000, blank=True)
    source = models.CharField(max_length=14, choices=Source.choices)
    preset = models.CharField(
        max_length=64, blank=True, editable=False, help_text="Tells pre-registered clients apart."
    )
    client_id = models.CharField(max_length=2000)
    auth_method = models.CharField(
        max_length=24, choices=[(method.value, method.value) for method in ClientAuthMethod]
    )
    sealed_secret = models.BinaryField(null=True, blank=True, editable=False)
    sealed_registration_token = models.BinaryField(null=True, blank=True, editable=False)
    secret_expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(
        null=True, blank=True, help_text="When somebody last finished signing in with it."
    )
    dropped_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta(TenantScoped.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "issuer", "redirect_uri", "source", "preset"],
                condition=Q(dropped_at__isnull=True),
                name="one_current_registration",
            )
        ]

    def __str__(self) -> str:
        return f"{self.source} at {self.issuer}"


class AuthorizationRequest(TenantScoped):
    """One pending sign-in: ends with its callback, its ten minutes, or the member's next one."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    member = models.ForeignKey("tenants.Membership", on_delete=models.CASCADE, related_name="+")
    subject_key = models.UUIDField()
    registration = models.ForeignKey(ClientRegistration, on_delete=models.CASCADE, related_name="+")
    state_hash = models.CharField(max_length=64, unique=True, editable=False)
    browser_hash = models.CharField(max_length=64, blank=True, editable=False)
    issuer = models.CharField(max_length=2000)
    must_name_issuer = models.BooleanField(default=False)
    token_endpoint = models.CharField(max_length=2000)
    revocation_endpoint = models.CharField(max_length=2000, blank=True)
    userinfo_endpoint = models.CharField(max_length=2000, blank=True)
    server_url = models.CharField(max_length=2000)
    resource = models.CharField(max_length=2000, blank=True)
    scopes = models.JSONField(default=list)
    redirect_uri = models.CharField(max_length=2000)
    return_url = models.CharField(max_length=2000, blank=True)
    operation = models.CharField(max_length=64, blank=True, editable=False)
    sealed_verifier = models.BinaryField(editable=False)
    sealed_url = models.BinaryField(null=True, editable=False)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta(TenantScoped.Meta):
        indexes: ClassVar = [
            models.Index(fields=["subject_key", "-id"], name="request_by_subject"),
            models.Index(fields=["expires_at"], name="request_by_end"),
        ]

    def __str__(self) -> str:
        return f"authorization request {self.id}"


class GrantStatus(models.TextChoices):
    ACTIVE = "active"
    LOST = "lost"


class Grant(TenantScoped):
    """One member's tokens for (issuer, resource); `version` grows with every change of tokens.

    The refresh lease is (`refresh_holder`, `refresh_until`) and only saves work: what makes a
    refresh safe is the compare-and-set on `version`. Times are the database's, not a process's.
    """

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    member = models.ForeignKey("tenants.Membership", on_delete=models.CASCADE, related_name="+")
    subject_key = models.UUIDField(unique=True)
    registration = models.ForeignKey(
        ClientRegistration, on_delete=models.RESTRICT, related_name="+"
    )
    kind = models.CharField(
        max_length=20,
        choices=[(kind.value, kind.value) for kind in GrantType],
        default=GrantType.AUTHORIZATION_CODE.value,
    )
    server_url = models.CharField(max_length=2000)
    issuer = models.CharField(max_length=2000)
    token_endpoint = models.CharField(max_length=2000)
    revocation_endpoint = models.CharField(max_length=2000, blank=True)
    resource = models.CharField(max_length=2000, blank=True)
    scopes = models.JSONField(default=list)
    sealed_access_token = models.BinaryField(editable=False)
    sealed_refresh_token = models.BinaryField(null=True, blank=True, editable=False)
    issued_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    refresh_expires_at = models.DateTimeField(null=True, blank=True)
    version = models.PositiveBigIntegerField(default=1)
    status = models.CharField(max_length=6, choices=GrantStatus.choices, default=GrantStatus.ACTIVE)
    lost_reason = models.CharField(
        max_length=24, blank=True, choices=[(reason.value, reason.value) for reason in LostReason]
    )
    lost_at = models.DateTimeField(null=True, blank=True)
    refresh_holder = models.CharField(max_length=80, blank=True)
    refresh_until = models.DateTimeField(null=True, blank=True)
    last_refresh_at = models.DateTimeField(null=True, blank=True)
    failures = models.PositiveIntegerField(default=0)
    next_attempt_at = models.DateTimeField(null=True, blank=True)
    last_failure = models.CharField(max_length=40, blank=True)
    is_forced = models.BooleanField(
        default=False, help_text="The server had refused the token before this one."
    )
    noticed_end = models.DateTimeField(
        null=True, blank=True, help_text="The end that its member was told about beforehand."
    )
    step_ups = models.JSONField(default=dict, blank=True)
    signed_in_as = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta(TenantScoped.Meta):
        indexes: ClassVar = [
            models.Index(fields=["status", "expires_at"], name="grant_by_expiry"),
            models.Index(fields=["tenant", "member"], name="grant_by_member"),
        ]

    def __str__(self) -> str:
        return f"grant {self.id} ({self.status})"


class Outcome(models.TextChoices):
    """What became of one refresh; `started` that stays is a refresher that died."""

    STARTED = "started"
    STORED = "stored"
    NOT_SENT = "not_sent", "not sent"
    UNANSWERED = "unanswered"
    FAILED = "failed"
    REFUSED = "refused"
    DISCARDED = "discarded"


class RefreshJournal(TenantScoped):
    """Written before the refresh token leaves, so that a death in between is known afterwards."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    grant = models.ForeignKey(Grant, on_delete=models.CASCADE, related_name="journal")
    version = models.PositiveBigIntegerField()
    holder = models.CharField(max_length=80)
    outcome = models.CharField(max_length=10, choices=Outcome.choices, default=Outcome.STARTED)
    detail = models.CharField(max_length=40, blank=True)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantScoped.Meta):
        indexes: ClassVar = [models.Index(fields=["grant", "version"], name="journal_by_version")]

    def __str__(self) -> str:
        return f"refresh of {self.grant_id} version {self.version}: {self.outcome}"
