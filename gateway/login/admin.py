"""Admin site of MCP clients and their logins: what is known, no secret; end and switch off.

The toolkit's own pages show rows of tokens and codes, of which nothing is of use to anybody.
"""

from __future__ import annotations

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from oauth2_provider.models import (
    get_access_token_model,
    get_grant_model,
    get_id_token_model,
    get_refresh_token_model,
)

from gateway.login import logins
from gateway.login.logins import EndReason
from gateway.login.models import ClientLogin, DownstreamClient
from oauth.admin import ReadOnly

admin.site.unregister(
    [
        DownstreamClient,
        *(get_access_token_model(), get_refresh_token_model()),
        *(get_grant_model(), get_id_token_model()),
    ]
)


@admin.register(DownstreamClient)
class DownstreamClientAdmin(ReadOnly):
    list_display = (
        *("name", "client_id", "registration_source", "redirect_uris"),
        *("is_active", "created", "cimd_expires_at"),
    )
    list_filter = ("registration_source", "is_active")
    search_fields = ("name", "client_id", "redirect_uris")
    actions = ("switch_off", "switch_on")

    @admin.action(description="Switch off: end all logins, allow no other", permissions=["end"])
    def switch_off(self, request: HttpRequest, rows: QuerySet[DownstreamClient]) -> None:
        rows.update(is_active=False)
        count = sum(logins.end_all_of(client, EndReason.OPERATOR) for client in rows)
        self.message_user(request, f"{count} logins ended.", messages.SUCCESS)

    @admin.action(description="Switch on", permissions=["end"])
    def switch_on(self, request: HttpRequest, rows: QuerySet[DownstreamClient]) -> None:
        count = rows.update(is_active=True)
        self.message_user(request, f"{count} switched on.", messages.SUCCESS)


@admin.register(ClientLogin)
class ClientLoginAdmin(ReadOnly):
    list_display = (
        *("client", "member", "tenant", "endpoint", "scopes"),
        *("signed_in_at", "last_used_at", "ended_at", "end_reason"),
    )
    list_filter = ("tenant", "end_reason")
    list_select_related = ("client", "tenant", "member__user")
    search_fields = ("client__name", "client__client_id")
    exclude = ("code_digest",)
    actions = ("end",)

    @admin.action(description="End: the person has to sign in again", permissions=["end"])
    def end(self, request: HttpRequest, rows: QuerySet[ClientLogin]) -> None:
        count = sum(logins.end(login, EndReason.OPERATOR) for login in rows)
        self.message_user(request, f"{count} ended.", messages.SUCCESS)
