"""Reads of the tenant's own objects: every one takes a Principal, and a miss is NotFoundError."""

from __future__ import annotations

import uuid
from typing import TypeVar

from django.db.models import Model, QuerySet

from mcphub.core.errors import NotFoundError
from tenants.models import ApiKey, ConnectSession, Membership, Tenant
from tenants.principal import Principal

CONNECT_SESSION_PREFIX = "cs_"

M = TypeVar("M", bound=Model)


def tenant_of(principal: Principal) -> Tenant:
    return Tenant.objects.get(pk=principal.tenant_id)


def own_membership(principal: Principal) -> Membership:
    return member_for(principal, str(principal.member_id))


def members_for(principal: Principal) -> QuerySet[Membership]:
    return Membership.objects.of(principal).select_related("user")


def member_for(principal: Principal, member_id: str) -> Membership:
    return _one(members_for(principal), member_id)


def api_keys_for(principal: Principal) -> QuerySet[ApiKey]:
    return ApiKey.objects.of(principal).select_related("member__user")


def api_key_for(principal: Principal, api_key_id: str) -> ApiKey:
    return _one(api_keys_for(principal), api_key_id)


def connect_session_for(principal: Principal, session_id: str) -> ConnectSession:
    """Take the public id, `cs_…`."""
    if not session_id.startswith(CONNECT_SESSION_PREFIX):
        raise NotFoundError
    sessions = ConnectSession.objects.of(principal).select_related("member")
    return _one(sessions, session_id.removeprefix(CONNECT_SESSION_PREFIX))


def _one(rows: QuerySet[M], row_id: str) -> M:
    try:
        found = rows.filter(pk=uuid.UUID(row_id)).first()
    except ValueError as exc:
        raise NotFoundError from exc
    if found is None:
        raise NotFoundError
    return found
