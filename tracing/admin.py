"""The trace in the admin site: to read, not to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from tracing.models import TraceEvent

if TYPE_CHECKING:
    RowAdmin = admin.ModelAdmin[TraceEvent]
else:
    RowAdmin = admin.ModelAdmin  # not generic at run time


@admin.register(TraceEvent)
class TraceEventAdmin(RowAdmin):
    list_display = (
        "at",
        "tenant",
        "server",
        "direction",
        "type",
        "method",
        "is_error",
        "size",
        "in_console",
    )
    list_filter = ("direction", "type", "is_error")
    search_fields = ("=id", "=call_id", "=connection_id")
    ordering = ("-id",)
    show_full_result_count = False
    list_select_related = ("tenant",)
    list_per_page = 50

    @admin.display(description="console")
    def in_console(self, row: TraceEvent) -> str:
        if row.call_id is None:
            return "-"
        address = f"{reverse('console')}#/{row.server}/tools/?filter=call:{row.call_id}"
        return format_html('<a href="{}" title="For its member: opens the call">open</a>', address)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
