"""Writes about tenants and members; credentials have their own module (api_keys, connect_sessions).

Every change is announced, so that what a member may do ends at once everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.urls import reverse

from mcphub.core import ids
from mcphub.core.errors import ConflictError, InvalidInputError, NotPermittedError
from tenants import selectors, single_use
from tenants.invalidation import Change, announce
from tenants.models import Membership, Role, Tenant, User
from tenants.principal import Principal, Scope

LOGIN_LINK = "login-link"
LOGIN_LINK_SECONDS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMember:
    """Either somebody who logs in (`email`) or an end user of an app (`external_id`)."""

    email: str = ""
    external_id: str = ""
    display_name: str = ""
    role: Role = Role.MEMBER


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberChange:
    """What to change of a member; None: leave it."""

    role: Role | None = None
    display_name: str | None = None
    is_active: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantChange:
    name: str | None = None
    allowed_origins: list[str] | None = None


@transaction.atomic
def create_tenant(*, name: str, slug: str = "", owner: User) -> Membership:
    """Make a tenant and its owner. Operator's work: it takes no Principal.

    Raises ConflictError, and InvalidInputError for a name or short name that cannot be used.
    """
    name = name.strip()
    chosen = slug or ids.slug_from(name)
    _check(Tenant(slug=chosen, name=name))
    try:
        with transaction.atomic():
            tenant = Tenant.objects.create(slug=chosen, name=name)
    except IntegrityError as exc:
        raise ConflictError(
            "There is a tenant with this short name.", code="already_exists"
        ) from exc
    return Membership.unscoped.create(
        tenant=tenant,
        user=owner,
        role=Role.OWNER,
        display_name=owner.get_full_name(),
        email=owner.email,
    )


def change_tenant(principal: Principal, *, change: TenantChange) -> Tenant:
    """Change the principal's own tenant. Raises NotPermittedError."""
    principal.require(Scope.MEMBERS_WRITE)
    tenant = selectors.tenant_of(principal)
    fields = {"name": change.name, "allowed_origins": change.allowed_origins}
    _save_changed(tenant, fields)
    announce(Change(tenant_id=tenant.id))
    return tenant


@transaction.atomic
def add_member(principal: Principal, *, new: NewMember) -> Membership:
    """Add a member; a person without a login gets one that the operator has to give a password.

    The answer does not tell whether the person was known. Raises NotPermittedError, ConflictError.
    """
    principal.require(Scope.MEMBERS_WRITE)
    _require_owner_for(principal, new.role)
    name = new.email.lower()
    user = login_for(name, email=name)[0] if not new.external_id else None
    try:
        with transaction.atomic():
            return Membership.unscoped.create(
                tenant_id=principal.tenant_id,
                user=user,
                external_id=new.external_id or None,
                display_name=new.display_name,
                email=new.email,
                role=Role.END_USER if new.external_id else new.role,
            )
    except IntegrityError as exc:
        raise ConflictError("This is a member already.", code="already_exists") from exc


@transaction.atomic
def change_member(principal: Principal, *, member_id: str, change: MemberChange) -> Membership:
    """Change a member. Raises NotFoundError, NotPermittedError, ConflictError (`last_owner`)."""
    principal.require(Scope.MEMBERS_WRITE)
    Tenant.objects.select_for_update().get(pk=principal.tenant_id)  # owners are counted below
    member = selectors.member_for(principal, member_id)
    _require_owner_for(principal, Role(member.role), change.role)
    is_end_user = member.role == Role.END_USER
    if change.role is not None and is_end_user != (change.role == Role.END_USER):
        raise ConflictError("An app's end user cannot become a login, nor the other way round.")
    stays_owner = change.role in {None, Role.OWNER} and change.is_active is not False
    if member.role == Role.OWNER and not stays_owner:
        _require_other_owner(principal, member)
    _save_changed(
        member,
        {
            "role": change.role,
            "display_name": change.display_name,
            "is_active": change.is_active,
        },
    )
    announce(Change(tenant_id=member.tenant_id))
    return member


def deactivate_member(principal: Principal, *, member_id: str) -> Membership:
    """Switch a member off: their keys, sessions and streams end at once."""
    return change_member(principal, member_id=member_id, change=MemberChange(is_active=False))


def make_login_link(user: User, *, to: str = "/admin/") -> str:
    """Return an address that logs `user` in once, within ten minutes, and leads to the path `to`.

    Operator's work. Raises UnavailableError when Redis is away.
    """
    payload = {"user": str(user.pk), "to": to}
    token = single_use.issue(LOGIN_LINK, {**payload}, seconds=LOGIN_LINK_SECONDS)
    return f"{settings.BASE_URL}{reverse('login-once', args=[token])}"


def redeem_login_link(token: str) -> tuple[User, str] | None:
    """End the link; return its user and path, or None when it is not valid (any more)."""
    payload = single_use.redeem(LOGIN_LINK, token)
    if payload is None:
        return None
    user = User.objects.filter(pk=int(str(payload["user"])), is_active=True).first()
    return (user, str(payload["to"])) if user else None


def login_for(name: str, *, email: str = "") -> tuple[User, bool]:
    """Return the login of this name; a new one (True) has no password. Raises InvalidInputError."""
    user = User.objects.filter(username=name).first()
    if user is not None:
        return user, False
    made = User(username=name, email=email)
    made.set_unusable_password()
    _check(made)
    return User.objects.get_or_create(
        username=name, defaults={"email": email, "password": made.password}
    )


def _check(row: Tenant | User) -> None:
    try:
        row.clean_fields()
    except ValidationError as exc:
        name, texts = next(iter(exc.message_dict.items()))
        raise InvalidInputError(f"{name}: {texts[0]}") from exc


def _require_owner_for(principal: Principal, *roles: Role | None) -> None:
    """Only owners make, change and unmake owners."""
    if Role.OWNER not in roles:
        return
    if selectors.own_membership(principal).role != Role.OWNER:
        raise NotPermittedError("Only an owner may do this to an owner.")


def _require_other_owner(principal: Principal, member: Membership) -> None:
    owners = selectors.members_for(principal).filter(role=Role.OWNER, is_active=True)
    if not owners.exclude(pk=member.pk).exists():
        raise ConflictError("A tenant needs an owner.", code="last_owner")


def _save_changed(row: Tenant | Membership, values: Mapping[str, object]) -> None:
    changed = {name: value for name, value in values.items() if value is not None}
    for name, value in changed.items():
        setattr(row, name, value)
    if changed:
        row.save(update_fields=list(changed))
