"""Permissions of DRF views: a Principal is needed, and perhaps one of its scopes."""

from __future__ import annotations

from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from mcphub.core.errors import NotAuthenticatedError
from tenants.principal import Principal, Scope


def principal_in(request: Request) -> Principal:
    """Return the Principal of a DRF request. Raises NotAuthenticatedError when there is none."""
    if not isinstance(request.auth, Principal):
        raise NotAuthenticatedError
    return request.auth


class HasPrincipal(BasePermission):
    def has_permission(self, request: Request, view: APIView) -> bool:
        principal_in(request)
        return True


class RequiresScope(HasPrincipal):
    """`permission_classes = [RequiresScope(Scope.X)]`; `write` is the scope of unsafe methods."""

    def __init__(self, scope: Scope, *, write: Scope | None = None) -> None:
        self.scope = scope
        self.write = write or scope

    def __call__(self) -> RequiresScope:
        return self  # DRF makes an instance of each entry of the list

    def has_permission(self, request: Request, view: APIView) -> bool:
        is_read = request.method in SAFE_METHODS
        principal_in(request).require(self.scope if is_read else self.write)
        return True
