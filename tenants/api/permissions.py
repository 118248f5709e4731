"""Permissions of DRF views: a Principal is needed, and perhaps one of its scopes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from mcphub.core.errors import NotAuthenticatedError
from tenants.principal import Principal, Scope

if TYPE_CHECKING:
    from rest_framework.views import APIView  # DRF loads this module while it loads that one


def principal_in(request: Request) -> Principal:
    """Return the Principal of a DRF request. Raises NotAuthenticatedError when there is none."""
    if not isinstance(request.auth, Principal):
        raise NotAuthenticatedError
    return request.auth


class HasPrincipal(BasePermission):
    def has_permission(self, request: Request, view: APIView) -> bool:
        principal_in(request)
        return True


def requires_scope(scope: Scope, *, write: Scope | None = None) -> type[HasPrincipal]:
    """Return the permission class for `scope`; `write` is the scope of unsafe methods."""

    class RequiresScope(HasPrincipal):
        def has_permission(self, request: Request, view: APIView) -> bool:
            is_read = request.method in SAFE_METHODS
            principal_in(request).require(scope if is_read else write or scope)
            return True

    return RequiresScope
