"""What a preset and a custom server have in common."""

from __future__ import annotations

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from connectors.definitions import DefinitionPolicy
from connectors.server_spec import AuthType, Transport


class ServerFields(models.Model):
    """Abstract: how to reach a server and how to authenticate there."""

    name = models.CharField(max_length=120)
    url = models.CharField(max_length=2000, blank=True)
    transport = models.CharField(
        max_length=20, choices=[(t.value, t.value) for t in Transport], default=Transport.AUTO.value
    )
    auth_type = models.CharField(
        max_length=10, choices=[(t.value, t.value) for t in AuthType], default=AuthType.NONE.value
    )
    auth_config = models.JSONField(
        default=dict,
        blank=True,
        help_text='Not secret: {"headerNames": ["X-Api-Key"], "scopes": ["read"]}. For OAuth also '
        "clientId, issuer, scopeCap, extraAuthorizeParams, resource, pkce, allowLegacyDiscovery, "
        "tokenEndpointAuthMethod and grantType: see docs/oauth.md.",
    )
    connect_timeout = models.FloatField(
        default=10.0, validators=[MinValueValidator(0.5), MaxValueValidator(60.0)]
    )
    call_timeout = models.FloatField(
        default=60.0, validators=[MinValueValidator(0.5), MaxValueValidator(600.0)]
    )
    auto_reconnect = models.BooleanField(default=True)
    relay_elicitation = models.BooleanField(default=True)
    relay_sampling = models.BooleanField(default=False)
    relay_roots = models.BooleanField(default=False)
    definition_policy = models.CharField(
        max_length=5,
        choices=[(p.value, p.value) for p in DefinitionPolicy],
        default=DefinitionPolicy.WARN.value,
        help_text="Whether a tool whose definition has changed waits for an approval.",
    )
    detected_era = models.CharField(max_length=6, blank=True, editable=False)
    detected_transport = models.CharField(max_length=20, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        abstract = True
