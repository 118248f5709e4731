"""Admin site of grants and registrations: what is known, without any secret; revoke and reset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asgiref.sync import async_to_sync
from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from oauth import flows
from oauth.means import open_means
from oauth.models import ClientRegistration, Grant, RefreshJournal
from oauth.names import LostReason
from oauth.records import registrations

if TYPE_CHECKING:  # Django 5.2 cannot subscript these when it runs
    RowAdmin = admin.ModelAdmin[Any]
else:
    RowAdmin = admin.ModelAdmin


class ReadOnly(RowAdmin):
    """Rows are made by flows and ended by actions; nothing of them is typed in."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_end_permission(self, request: HttpRequest) -> bool:
        name = f"{self.opts.app_label}.change_{self.opts.model_name}"
        return bool(getattr(request.user, "has_perm", lambda _: False)(name))


@admin.register(Grant)
class GrantAdmin(ReadOnly):
    list_display = (
        *("subject_key", "member", "tenant", "issuer", "status", "lost_reason"),
        *("expires_at", "last_refresh_at", "failures", "signed_in_as"),
    )
    list_filter = ("status", "lost_reason", "tenant")
    list_select_related = ("tenant", "member__user")
    search_fields = ("issuer", "server_url", "signed_in_as")
    actions = ("revoke",)

    @admin.action(description="Revoke: the member has to sign in again", permissions=["end"])
    def revoke(self, request: HttpRequest, grants: QuerySet[Grant]) -> None:
        keys = list(grants.values_list("subject_key", flat=True))
        async_to_sync(_revoke)(keys)
        self.message_user(request, f"{len(keys)} revoked.", messages.SUCCESS)


@admin.register(ClientRegistration)
class ClientRegistrationAdmin(ReadOnly):
    list_display = (
        *("issuer", "redirect_uri", "source", "client_id", "tenant", "auth_method"),
        *("secret_expires_at", "last_used_at", "dropped_at"),
    )
    list_filter = ("source", "tenant")
    list_select_related = ("tenant",)
    search_fields = ("issuer", "client_id")
    actions = ("reset",)

    @admin.action(description="Reset: register anew at the next sign-in", permissions=["end"])
    def reset(self, request: HttpRequest, rows: QuerySet[ClientRegistration]) -> None:
        count = sum(registrations.reset(row.pk) for row in rows)
        self.message_user(request, f"{count} reset.", messages.SUCCESS)


@admin.register(RefreshJournal)
class RefreshJournalAdmin(ReadOnly):
    list_display = ("grant", "version", "outcome", "detail", "started_at", "ended_at")
    list_filter = ("outcome",)
    list_select_related = ("grant",)


async def _revoke(subject_keys: list[Any]) -> None:
    async with open_means() as means:
        for subject_key in subject_keys:
            await flows.revoke(means, subject_key, LostReason.REVOKED)
