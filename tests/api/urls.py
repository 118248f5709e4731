"""Routes that exist only in these tests: one view per way to fail."""

from __future__ import annotations

import json
from typing import Any

from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from mcphub.api.asynchronous import json_body
from mcphub.api.serializers import Input, Output
from mcphub.core import errors
from mcphub.urls import handler400, handler403, handler404, handler500
from mcphub.urls import urlpatterns as product
from tenants.api.asynchronous import async_view
from tenants.principal import Principal, Scope

SECRET = "upstream says: token=tok-123"
FAILURES: dict[str, Exception] = {
    "blocked": errors.BlockedUrlError(),
    "conflict": errors.ConflictError("There is one.", code="already_exists"),
    "limit": errors.LimitError("Too many calls.", retry_after=1.2, extra={"limit": "calls"}),
    "away": errors.UnavailableError(retry_after=2),
    "unreachable": errors.UpstreamError(),
    "late": errors.UpstreamTimeoutError(),
    "unknown-outcome": errors.OutcomeUnknownError(),
    "sign-in": errors.AuthorizationNeededError(),
    "protocol": errors.ProtocolError(rpc_code=-32602, rpc_message=SECRET, rpc_data={"a": 1}),
    "http404": Http404(SECRET),
    "denied": PermissionDenied(SECRET),
    "bad": BadRequest(SECRET),
    "fault": RuntimeError(SECRET),
}


class ItemInput(Input):
    item_name = serializers.CharField(max_length=3)


class ShelfInput(Input):
    shelf_items = ItemInput(many=True)
    is_open = serializers.BooleanField(required=False)


class ShelfOutput(Output):
    shelf_items = serializers.ListField()
    first_item = serializers.SerializerMethodField()

    def get_first_item(self, shelf: dict[str, Any]) -> str:
        return str(shelf["shelf_items"][0]["item_name"])


class FailingView(APIView):
    permission_classes = []

    def get(self, request: Request, name: str) -> Response:
        raise FAILURES[name]


class ShelfView(APIView):
    def post(self, request: Request) -> Response:
        return Response(ShelfOutput(ShelfInput.read(request.data)).data)


@async_view("GET")
async def failing(request: HttpRequest, principal: Principal, name: str) -> HttpResponse:
    raise FAILURES[name]


@async_view("POST", scope=Scope.TOOLS_CALL)
async def echo(request: HttpRequest, principal: Principal) -> JsonResponse:
    body = json_body(request, limit=100)
    return JsonResponse({"member": str(principal.member_id), "body": body})


def broken(request: HttpRequest) -> HttpResponse:
    return HttpResponse(json.dumps(FAILURES["fault"]))  # no view catches this one


urlpatterns = [
    path("api/v1/failing/<str:name>", FailingView.as_view()),
    path("api/v1/shelf", ShelfView.as_view()),
    path("api/v1/async-failing/<str:name>", failing),
    path("api/v1/echo", echo),
    path("api/v1/broken", broken),
    path("broken", broken),
    *product,
]

__all__ = ["handler400", "handler403", "handler404", "handler500", "urlpatterns"]
