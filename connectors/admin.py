"""Admin site of presets, connections and the ledger; no secret to read.

Presets are saved by the same service as the API's, so the same rules hold. Connections and calls
can only be looked at; texts of upstream servers are escaped by the site's templates.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from asgiref.sync import async_to_sync
from django import forms
from django.contrib import admin, messages
from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db.models import Count, IntegerField, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join

from connectors import events, selectors
from connectors.models import Connection, Connector, CustomServer, ToolCall
from connectors.services import connections, connectors, diagnose, oauth_risks
from connectors.states import State
from mcphub.core.errors import ConflictError, HubError, InvalidInputError
from mcphub.core.types import JSONObject

if TYPE_CHECKING:  # Django 5.2 cannot subscript these when it runs
    RowAdmin = admin.ModelAdmin[Any]
    ConnectorFormBase = forms.ModelForm[Connector]
else:
    RowAdmin, ConnectorFormBase = admin.ModelAdmin, forms.ModelForm

PREVIEWED = ("/static/", "data:image/")
"""Icons that the site's Content-Security-Policy lets a page show."""
MOST_TESTED = 5
"""Presets that one action tries: each may take some seconds."""
HEADER_LINE = re.compile(r"(?P<name>[^:\s]+)\s*:\s*(?P<value>\S.*)")
VARIABLE_LINE = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?P<value>\S.*)")
FIELD_OF = {
    "/id": "slug",
    "/transport": "transport",
    "/command": "command",
    "/icon": "icon",
    "/auth": "auth_config",
}
"""Paths of the service's problems → fields of the form."""


def parse_lines(text: str, line: re.Pattern[str]) -> JSONObject:
    """Read one name and value from each line. Raises ValidationError without the line's text."""
    found: JSONObject = {}
    for number, raw in enumerate(text.splitlines(), 1):
        if not raw.strip():
            continue
        match = line.fullmatch(raw.strip())
        if match is None:
            raise ValidationError(f"Line {number} cannot be read.")
        found[match["name"]] = match["value"]
    return found


class ConnectorForm(ConnectorFormBase):
    """The columns, and secrets that go in and never come out."""

    secret_headers = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "autocomplete": "off"}),
        help_text="One per line, such as <code>X-Api-Key: value</code>. "
        "Sent with every request to this server. Stored secrets are never shown; "
        "what is entered here replaces all of them, empty leaves them.",
    )
    secret_environment = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "autocomplete": "off"}),
        help_text="For stdio: one per line, such as <code>TOKEN=value</code>.",
    )
    client_secret = forms.CharField(
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="For OAuth: of the client whose <code>clientId</code> is in the configuration.",
    )
    private_key = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "autocomplete": "off"}),
        help_text="For OAuth with <code>private_key_jwt</code>: PEM or JWK.",
    )
    drop_secrets = forms.BooleanField(required=False, help_text="Remove the stored secrets.")

    class Meta:
        model = Connector
        exclude = ()
        labels: ClassVar = {"url": "URL", "auth_type": "Kind", "auth_config": "Settings"}
        help_texts: ClassVar = {
            "slug": "The public id of the server; part of the names of its tools.",
            "tenant": "Whose members see it; empty: everybody, in every tenant.",
            "url": "Of the MCP endpoint; empty for stdio.",
            "icon": "An https address, or <code>data:image/…</code>.",
            "order": "Lower comes first.",
            "connect_timeout": "Seconds until the session has to be open: 0.5 to 60.",
            "call_timeout": "Seconds without progress that a call may take: 0.5 to 600.",
            "auto_reconnect": "Open a lost session again by itself.",
            "relay_elicitation": "Questions of the server to the user.",
            "relay_sampling": "Requests of the server to the user's model.",
            "relay_roots": "Questions of the server for the user's folders.",
        }

    def clean_secret_headers(self) -> JSONObject:
        return parse_lines(self.cleaned_data["secret_headers"], HEADER_LINE)

    def clean_secret_environment(self) -> JSONObject:
        return parse_lines(self.cleaned_data["secret_environment"], VARIABLE_LINE)

    @property
    def secrets(self) -> JSONObject | None:
        """What to store; None leaves what is stored."""
        entered: JSONObject = {
            "headers": self.cleaned_data.get("secret_headers") or {},
            "environment": self.cleaned_data.get("secret_environment") or {},
        }
        if self._oauth:
            entered["oauth"] = self._oauth
        if any(entered.values()):
            return entered
        return {} if self.cleaned_data.get("drop_secrets") else None

    @property
    def _oauth(self) -> JSONObject:
        names = {"clientSecret": "client_secret", "privateKey": "private_key"}
        entered = {name: self.cleaned_data.get(field) for name, field in names.items()}
        return {name: text for name, text in entered.items() if text}

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]  # Django's hook after the instance is filled
        # Constraints of the table name themselves only; `check` says the same in words.
        self.errors.pop(NON_FIELD_ERRORS, None)
        if self.errors:
            return
        try:
            connectors.check(self.instance, self.secrets)
        except InvalidInputError as exc:
            for problem in exc.problems:
                is_auth = problem.path.startswith("/auth/")
                field = "auth_config" if is_auth else FIELD_OF.get(problem.path, "secret_headers")
                told = f"{problem.path[6:]}: {problem.message}" if is_auth else problem.message
                self.add_error(field, told)
        except ConflictError as exc:
            self.add_error("slug", f"{exc.detail.rstrip('.')}.")
        except HubError as exc:
            self.add_error("url", exc.detail)


@admin.register(Connector)
class ConnectorAdmin(RowAdmin):
    form = ConnectorForm
    list_display = (
        "name",
        "slug",
        "scope",
        "icon_preview",
        "transport",
        "auth_type",
        "is_enabled",
        "order",
        "connection_count",
        "connected_count",
    )
    list_filter = ("is_enabled", "tenant", "transport", "auth_type")
    list_select_related = ("tenant",)
    search_fields = ("name", "slug", "url")
    prepopulated_fields = {"slug": ("name",)}
    readonly_fields = ("icon_preview", "has_secrets", "risks")
    actions = ("test_connection",)
    fieldsets = (
        (None, {"fields": ("name", "slug", "tenant", "description", "is_enabled", "order")}),
        ("Icon", {"fields": ("icon", "icon_preview")}),
        ("Address", {"fields": ("url", "transport", "command")}),
        (
            "Signing in",
            {
                "fields": (
                    "auth_type",
                    "auth_config",
                    "risks",
                    "has_secrets",
                    "secret_headers",
                    "secret_environment",
                    "client_secret",
                    "private_key",
                    "drop_secrets",
                )
            },
        ),
        (
            "Times and reconnecting",
            {"fields": ("connect_timeout", "call_timeout", "auto_reconnect")},
        ),
        ("Policy", {"fields": ("definition_policy",)}),
        (
            "What is relayed",
            {"fields": ("relay_elicitation", "relay_sampling", "relay_roots", "may_replay_reads")},
        ),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Connector]:
        rows = Connector.unscoped.all()
        return rows.annotate(
            connection_number=_count(), connected_number=_count(state=State.CONNECTED.value)
        )

    @admin.display(description="whose", ordering="tenant__name")
    def scope(self, row: Connector) -> str:
        return row.tenant.name if row.tenant else "everybody"

    @admin.display(description="icon")
    def icon_preview(self, row: Connector) -> str:
        if row.icon.startswith(PREVIEWED):
            return format_html('<img src="{}" alt="" width="24" height="24">', row.icon)
        return row.icon[:60] or "-"

    @admin.display(description="secrets stored", boolean=True)
    def has_secrets(self, row: Connector) -> bool:
        return row.sealed_secrets is not None

    @admin.display(description="risks of the choices")
    def risks(self, row: Connector) -> str:
        found = [(risk.text, risk.hint) for risk in oauth_risks.risks_for(row)]
        return format_html_join("", "<p>{} {}</p>", found) or "-"

    @admin.display(description="connections", ordering="connection_number")
    def connection_count(self, row: Any) -> str:
        return _link_to_connections(row, row.connection_number)

    @admin.display(description="connected", ordering="connected_number")
    def connected_count(self, row: Any) -> str:
        return _link_to_connections(row, row.connected_number, "&state__exact=connected")

    @admin.action(description="Test the connection, without a member's credentials")
    def test_connection(self, request: HttpRequest, rows: QuerySet[Connector]) -> None:
        for row in rows[:MOST_TESTED]:
            steps = async_to_sync(diagnose.diagnose)(selectors.spec_of_preset(row))
            failed = next((step for step in steps if step.outcome == "failed"), None)
            level = messages.SUCCESS if failed is None else messages.WARNING
            self.message_user(request, f"{row}: {_outcome(failed)}", level)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:  # noqa: FBT001  (Django's signature)
        connectors.store(obj, secrets=form.secrets)

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[Any], dict[str, int], set[str], list[Any]]:
        """Let go what goes with a preset, though nobody may remove it by itself."""
        gone, counts, _, protected = super().get_deleted_objects(objs, request)
        return gone, counts, set(), protected

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        connectors.remove(obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for row in queryset:
            connectors.remove(row)


class LookAdmin(RowAdmin):
    """Base of what can only be looked at."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Connection)
class ConnectionAdmin(LookAdmin):
    list_display = ("slug", "member", "tenant", "server", "state", "held_by", "era", "connected_at")
    list_filter = ("state", "tenant", "connector")
    list_select_related = ("tenant", "member", "connector", "custom_server")
    search_fields = ("slug", "name", "member__display_name", "member__email")
    actions = ("disconnect",)
    fields = (
        "slug",
        "name",
        "tenant",
        "member",
        "connector",
        "custom_server",
        "state",
        "is_wanted",
        "attempt",
        "next_retry_at",
        "connected_at",
        "last_error",
        "has_credentials",
        "held_by",
        "epoch",
        "transport_used",
        "era",
        "protocol_version",
        "server_info",
        "capabilities",
        "catalog_version",
        "created_at",
    )
    readonly_fields = ("has_credentials",)

    @admin.display(description="server")
    def server(self, row: Connection) -> str:
        server: Connector | CustomServer | None = row.connector or row.custom_server
        return str(server)

    @admin.display(description="credentials stored", boolean=True)
    def has_credentials(self, row: Connection) -> bool:
        return row.sealed_credentials is not None

    def has_disconnect_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("connectors.change_connection")

    @admin.action(description="Disconnect", permissions=["disconnect"])
    def disconnect(self, request: HttpRequest, rows: QuerySet[Connection]) -> None:
        for row in rows:
            connections.disconnect(events.owner_of(row), row)
        self.message_user(request, f"{len(rows)} connections were told to end.")


@admin.register(CustomServer)
class CustomServerAdmin(LookAdmin):
    list_display = ("name", "address", "member", "tenant", "transport", "auth_type", "created_at")
    list_filter = ("tenant", "transport", "auth_type")
    list_select_related = ("tenant", "member")
    search_fields = ("name", "url")

    @admin.display(description="URL", ordering="url")
    def address(self, row: CustomServer) -> str:
        return row.url


@admin.register(ToolCall)
class ToolCallAdmin(LookAdmin):
    """The ledger without arguments and results, which stay sealed."""

    list_display = ("id", "tenant", "server", "method", "target", "status", "attempt", "created_at")
    list_filter = ("status", "method", "tenant")
    list_select_related = ("tenant",)
    search_fields = ("=id", "server", "target")
    ordering = ("-id",)
    show_full_result_count = False
    fields = (
        "id",
        "tenant",
        "member_id",
        "connection_id",
        "server",
        "method",
        "target",
        "status",
        "attempt",
        "worker",
        "is_tool_error",
        "problem_code",
        "problem_detail",
        "timeout_ms",
        "deadline_at",
        "is_cancel_requested",
        "created_at",
        "claimed_at",
        "sent_at",
        "finished_at",
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[ToolCall]:
        return ToolCall.unscoped.defer("sealed_params", "sealed_outcome")


def _link_to_connections(row: Connector, count: int, narrow: str = "") -> str:
    address = f"{reverse('admin:connectors_connection_changelist')}?connector__id__exact={row.pk}"
    return format_html('<a href="{}">{}</a>', f"{address}{narrow}", count)


def _outcome(failed: diagnose.Step | None) -> str:
    if failed is None:
        return "every step from the name to the authorization is fine."
    return f"step “{failed.name}” failed ({failed.code}). {failed.hint or ''}"


def _count(**narrow: Any) -> Coalesce:
    rows = Connection.unscoped.filter(connector=OuterRef("pk"), **narrow).order_by()
    counted = rows.values("connector").annotate(number=Count("pk")).values("number")
    return Coalesce(Subquery(counted, output_field=IntegerField()), 0)
