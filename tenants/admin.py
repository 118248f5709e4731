"""Admin site of tenants, members and credentials: the same services, and no secret to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html

from mcphub.core.errors import BlockedUrlError
from tenants import api_keys, connect_sessions, services
from tenants.login import LimitedLoginForm
from tenants.models import (
    ApiKey,
    ConnectSession,
    Membership,
    Tenant,
    User,
    Webhook,
    WebhookDelivery,
)
from tenants.principal import Scope
from tenants.webhooks import endpoints

if TYPE_CHECKING:  # Django 5.2 cannot subscript these when it runs
    UserBase = UserAdmin[User]
    RowAdmin = admin.ModelAdmin[Any]
    KeyFormBase = forms.ModelForm[ApiKey]
    TenantFormBase = forms.ModelForm[Tenant]
    WebhookFormBase = forms.ModelForm[Webhook]
else:
    UserBase, RowAdmin = UserAdmin, admin.ModelAdmin
    KeyFormBase = TenantFormBase = WebhookFormBase = forms.ModelForm

admin.site.site_header = admin.site.site_title = "mcphub"
admin.site.index_title = "Administration"
admin.site.login_form = LimitedLoginForm
admin.site.unregister(Group)  # what somebody may do is the role of their membership


@admin.register(User)
class MemberUserAdmin(UserBase):
    actions = ("make_login_links",)
    list_filter = ("is_staff", "is_superuser", "is_active")
    filter_horizontal = ("user_permissions",)
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": ("first_name", "last_name", "email")}),
        (
            "Operator",
            {
                "fields": ("is_active", "is_staff", "is_superuser", "user_permissions"),
                "description": "For this site alone; in a tenant the membership's role counts.",
            },
        ),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )

    @admin.action(description="Make one-time login links", permissions=["link"])
    def make_login_links(self, request: HttpRequest, users: QuerySet[User]) -> None:
        for user in users.filter(is_active=True):
            to = "/admin/" if user.is_staff else "/"
            link = services.make_login_link(user, to=to)
            text = format_html("{} logs in once, within ten minutes: {}", user.username, link)
            self.message_user(request, text, messages.WARNING)

    def has_link_permission(self, request: HttpRequest) -> bool:
        """Allow login links to superusers only: who has one is that user."""
        return bool(getattr(request.user, "is_superuser", False))


class TenantForm(TenantFormBase):
    class Meta:
        model = Tenant
        exclude = ()
        labels: ClassVar = {
            "max_connections": "Connections",
            "max_custom_servers": "Custom servers",
            "max_concurrent_calls": "Concurrent calls",
        }
        help_texts: ClassVar = {
            "slug": "The short name, in commands.",
            "is_active": "Off: every credential of its members is refused.",
            "allowed_origins": "Web origins that may call the API from a browser: "
            '<code>["https://app.example"]</code>.',
            "max_connections": "The most of all members together.",
            "max_custom_servers": "The most of all members together.",
            "max_concurrent_calls": "The most in flight of all members together.",
            "calls_per_minute": "The most of all members together.",
        }


@admin.register(Tenant)
class TenantAdmin(RowAdmin):
    form = TenantForm
    list_display = ("name", "slug", "is_active", "created_at")
    list_filter = ("is_active",)
    search_fields = ("name", "slug")
    prepopulated_fields = {"slug": ("name",)}


@admin.register(Membership)
class MembershipAdmin(RowAdmin):
    list_display = ("__str__", "tenant", "role", "user", "external_id", "is_active")
    list_filter = ("role", "is_active", "tenant")
    list_select_related = ("tenant", "user")
    search_fields = ("display_name", "email", "external_id", "user__username")
    autocomplete_fields = ("tenant", "user")
    fields = ("tenant", "user", "external_id", "display_name", "email", "role", "is_active")

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return ("tenant", "user", "external_id") if obj else ()


class ApiKeyForm(KeyFormBase):
    scopes = forms.MultipleChoiceField(
        choices=[(scope.value, scope.value) for scope in Scope],
        widget=forms.CheckboxSelectMultiple,
        help_text="Only as far as the member's role goes.",
    )

    class Meta:
        model = ApiKey
        fields = ("member", "name", "scopes", "is_read_only", "finds_tools", "expires_at")


class RevokedByAction(RowAdmin):
    """Rows are made by services and ended by the action; nothing of them is edited or deleted."""

    actions = ("revoke",)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        name = f"{self.opts.app_label}.change_{self.opts.model_name}"
        return bool(getattr(request.user, "has_perm", lambda _: False)(name))


@admin.register(ApiKey)
class ApiKeyAdmin(RevokedByAction):
    form = ApiKeyForm
    list_display = (
        "name",
        "key_id",
        "member",
        "tenant",
        "expires_at",
        "last_used_at",
        "revoked_at",
    )
    list_filter = ("tenant",)
    list_select_related = ("tenant", "member__user")
    search_fields = ("name", "key_id")
    autocomplete_fields = ("member",)
    readonly_fields = ("key_id", "tenant", "last_used_at", "revoked_at", "created_at")

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        made = ("member", "name", "scopes", "is_read_only", "finds_tools", "expires_at")
        return (*made, *self.readonly_fields) if obj else made

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return self.readonly_fields if obj else ()

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:  # noqa: FBT001  (Django's signature)
        """Make the key by the service and show its secret this once."""
        wanted = form.cleaned_data
        new = api_keys.NewKey(
            name=wanted["name"],
            scopes=frozenset(map(Scope, wanted["scopes"])),
            is_read_only=wanted["is_read_only"],
            finds_tools=wanted["finds_tools"],
            expires_at=wanted["expires_at"],
        )
        issued = api_keys.issue(wanted["member"], new=new)
        obj.__dict__.update(issued.api_key.__dict__)
        text = format_html("The key, shown this once: {}", issued.secret)
        self.message_user(request, text, messages.WARNING)

    @admin.action(description="Revoke", permissions=["revoke"])
    def revoke(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> None:
        for key in keys:
            api_keys.end(key)


@admin.register(ConnectSession)
class ConnectSessionAdmin(RevokedByAction):
    list_display = ("id", "member", "tenant", "expires_at", "revoked_at")
    list_filter = ("tenant",)
    list_select_related = ("tenant", "member__user")
    exclude = ("token_hash",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    @admin.action(description="Revoke", permissions=["revoke"])
    def revoke(self, request: HttpRequest, sessions: QuerySet[ConnectSession]) -> None:
        for session in sessions:
            connect_sessions.end(session)


class WebhookForm(WebhookFormBase):
    class Meta:
        model = Webhook
        fields = ("tenant", "url", "is_active")

    def clean_url(self) -> str:
        """Refuse an address that the hub may not call."""
        url: str = self.cleaned_data["url"]
        try:
            endpoints.check(url)
        except BlockedUrlError as exc:
            raise forms.ValidationError(exc.detail) from exc
        return url


@admin.register(Webhook)
class WebhookAdmin(RowAdmin):
    form = WebhookForm
    list_display = ("tenant", "url", "is_active", "former_secret_until", "created_at")
    list_filter = ("is_active",)
    list_select_related = ("tenant",)
    autocomplete_fields = ("tenant",)
    actions = ("send_test", "rotate")

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return ("tenant",) if obj else ()

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:  # noqa: FBT001  (Django's signature)
        """Make a new webhook's secret and show it this once."""
        if change:
            obj.save()
        else:
            self._show(request, endpoints.make(obj))

    @admin.action(description="Send a test message", permissions=["change"])
    def send_test(self, request: HttpRequest, rows: QuerySet[Webhook]) -> None:
        for row in rows:
            endpoints.send_test(row)
        self.message_user(request, "Queued; see the webhook deliveries.", messages.SUCCESS)

    @admin.action(description="Change the secret", permissions=["change"])
    def rotate(self, request: HttpRequest, rows: QuerySet[Webhook]) -> None:
        for row in rows:
            self._show(request, endpoints.rotate(row))

    def _show(self, request: HttpRequest, issued: endpoints.Issued) -> None:
        text = format_html(
            "The secret of {}, shown this once: {}", issued.webhook.url, issued.secret.value
        )
        self.message_user(request, text, messages.WARNING)


@admin.register(WebhookDelivery)
class WebhookDeliveryAdmin(RowAdmin):
    list_display = ("created_at", "tenant", "type", "change", "status", "attempts", "outcome")
    list_filter = ("status", "tenant")
    list_select_related = ("tenant",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False
