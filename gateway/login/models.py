"""Programs that sign in at `/mcp`, and the logins that people gave them; no secret in either."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from oauth2_provider.models import AbstractApplication, ApplicationManager

from gateway.login import policy
from mcphub.core import ids
from tenants.models import Membership
from tenants.scoping import TenantScoped

NAME_MAX = 100
REDIRECTS_MAX = 20
NO_REDIRECT = "No redirect URI is left that this hub sends anybody to."


class DownstreamClient(AbstractApplication):
    """An MCP client that may ask a person to sign in; always public, so it has no secret.

    It says itself what it is called: nobody has checked its name.
    """

    # Fields of the toolkit that would be secrets, or switches that no client here may have.
    client_secret = None
    hash_client_secret = None
    user = None
    skip_authorization = None
    algorithm = None
    post_logout_redirect_uris = None
    allowed_origins = None

    is_active = models.BooleanField(
        default=True, help_text="Switched off, it can start no login, and its tokens end."
    )

    objects = ApplicationManager()

    class Meta(AbstractApplication.Meta):
        verbose_name = "MCP client"

    def natural_key(self) -> tuple[str]:
        return (self.client_id,)

    @property
    def redirects(self) -> list[str]:
        return self.redirect_uris.split()

    @property
    def document_host(self) -> str:
        """Where its metadata document is, which proves the name of the host; "" without one."""
        is_document = self.registration_source == self.RegistrationSource.CIMD
        return policy.origin_of(self.client_id).removeprefix("https://") if is_document else ""

    def clean(self) -> None:
        """Keep the redirect URIs that this hub may use (RFC 7591 §2 allows it); refuse none."""
        kept = [uri for uri in self.redirects if may_redirect(uri)]
        if not kept or len(kept) > REDIRECTS_MAX:
            raise ValidationError({"redirect_uris": NO_REDIRECT})
        if len(self.name) > NAME_MAX or not self.name.isprintable():
            raise ValidationError({"name": f"At most {NAME_MAX} printable characters."})
        if self.authorization_grant_type != self.GRANT_AUTHORIZATION_CODE:
            raise ValidationError({"authorization_grant_type": "There is no other grant."})
        self.redirect_uris = " ".join(kept)

    def redirect_uri_allowed(self, uri: str) -> bool:
        """Compare exactly, but for the port of a loopback address (RFC 8252 §7.3)."""
        return may_redirect(uri) and bool(super().redirect_uri_allowed(uri))

    def get_allowed_schemes(self) -> list[str]:
        return ["https", "http", *settings.CLIENT_LOGIN_SCHEMES]

    def is_usable(self, request: Any) -> bool:
        return self.is_active and settings.CLIENT_LOGIN != policy.Mode.OFF


class ClientLogin(TenantScoped):
    """One member's consent to one client: what its tokens may do, until it ends.

    `id` is the family of its refresh tokens; `code_digest` names the code it began with, so that a
    code that is shown twice ends it (RFC 6749 §4.1.2).
    """

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    member = models.ForeignKey(Membership, on_delete=models.CASCADE, related_name="+")
    client = models.ForeignKey(DownstreamClient, on_delete=models.CASCADE, related_name="logins")
    scopes = models.JSONField(default=list)
    endpoint = models.CharField(max_length=60, help_text="`/mcp`, or `/mcp/s/…` of one server.")
    code_digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    signed_in_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    end_reason = models.CharField(max_length=20, blank=True)

    class Meta(TenantScoped.Meta):
        verbose_name = "login of an MCP client"
        verbose_name_plural = "logins of MCP clients"
        indexes: ClassVar = [models.Index(fields=["member", "ended_at"], name="login_of_member")]

    def __str__(self) -> str:
        return f"login {self.id}"

    @property
    def credential(self) -> str:
        """As in `Principal.credential`."""
        return f"{CREDENTIAL}:{self.id}"


CREDENTIAL = "client_login"


def may_redirect(uri: str) -> bool:
    """Whether this hub, as it is configured, sends anybody to `uri`."""
    mode = policy.Mode(settings.CLIENT_LOGIN)
    return policy.may_redirect(uri, mode, frozenset(settings.CLIENT_LOGIN_SCHEMES))
