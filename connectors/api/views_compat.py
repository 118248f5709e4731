"""Storage for react-mcp front ends (API design §12.3, way B); only where the operator allows it."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from connectors.services import browser_storage
from connectors.services.browser_storage import ABSENT, CUSTOM_SERVERS, Kept, auth_key
from mcphub.core.errors import FieldProblem, InvalidInputError, NotFoundError
from tenants.api.permissions import principal_in, requires_scope
from tenants.principal import Scope

MOST_SERVERS = 500
ID_LENGTH = 150
RECORDS = {"type": "array", "items": {"type": "object", "additionalProperties": True}}
STATE = {"type": "object", "additionalProperties": True}


class StorageView(APIView):
    """Base: answers 404 everywhere unless the operator switched the storage on."""

    permission_classes = [requires_scope(Scope.STORAGE_REACT_MCP)]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        if not settings.REACT_MCP_STORAGE:
            raise NotFoundError
        super().initial(request, *args, **kwargs)


class CustomServersStorageView(StorageView):
    @extend_schema(operation_id="loadReactMcpCustomServers", responses={200: RECORDS})
    def get(self, request: Request) -> Response:
        """Return the list that was saved last with its `ETag`; empty when none was."""
        try:
            kept = browser_storage.load(principal_in(request), CUSTOM_SERVERS)
        except NotFoundError:
            kept = Kept(value=[], etag=ABSENT)
        return _response(kept)

    @extend_schema(
        operation_id="saveReactMcpCustomServers",
        request={"application/json": RECORDS},
        responses={200: RECORDS},
    )
    def put(self, request: Request) -> Response:
        """Replace the list; `If-Match` with the ETag that was read is required (428, 412)."""
        records = request.data
        if not isinstance(records, list) or len(records) > MOST_SERVERS:
            raise _wrong("", f"A list of at most {MOST_SERVERS} records.")
        for number, record in enumerate(records):
            if not isinstance(record, dict) or not isinstance(record.get("id"), str):
                raise _wrong(f"/{number}/id", "Every record has an id.")
        return _saved(request, CUSTOM_SERVERS)


class AuthStorageView(StorageView):
    @extend_schema(operation_id="loadReactMcpAuth", responses={200: STATE})
    def get(self, request: Request, server_id: str) -> Response:
        """Return the auth state of one server of the front end; unknown ids answer 404."""
        return _response(browser_storage.load(principal_in(request), _key(server_id)))

    @extend_schema(
        operation_id="saveReactMcpAuth",
        request={"application/json": STATE},
        responses={200: STATE},
    )
    def put(self, request: Request, server_id: str) -> Response:
        """Create (`If-None-Match: *`) or replace (`If-Match`); unknown members stay."""
        if not isinstance(request.data, dict):
            raise _wrong("", "This has to be an object.")
        return _saved(request, _key(server_id))

    @extend_schema(operation_id="clearReactMcpAuth", responses={204: None})
    def delete(self, request: Request, server_id: str) -> Response:
        """Forget the auth state of one server of the front end."""
        browser_storage.clear(principal_in(request), _key(server_id))
        return Response(status=204)


def _key(server_id: str) -> str:
    if len(server_id) > ID_LENGTH:
        raise NotFoundError
    return auth_key(server_id)


def _saved(request: Request, key: str) -> Response:
    if_match = request.headers.get("If-Match")
    if if_match is None and request.headers.get("If-None-Match") == "*":
        if_match = ABSENT
    kept = browser_storage.save(principal_in(request), key, request.data, if_match=if_match)
    return _response(kept)


def _response(kept: Kept) -> Response:
    return Response(kept.value, headers={"ETag": kept.etag})


def _wrong(path: str, message: str) -> InvalidInputError:
    return InvalidInputError(problems=[FieldProblem(path=path, message=message)])
