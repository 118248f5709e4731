"""Django's own error answers: problem documents below the API, plain text elsewhere."""

from __future__ import annotations

import sys
from typing import Any

from django.core.exceptions import BadRequest
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse

from mcphub.api.errors import InternalError, problem_response
from mcphub.core.errors import NotPermittedError

API_PREFIX = "/api/"


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _answer(request, BadRequest(), "400 Bad request", 400)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _answer(request, NotPermittedError(), "403 Not permitted", 403)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    error = NotPermittedError("The CSRF token is missing or wrong.", code="csrf_failed")
    return _answer(request, error, "403 The CSRF token is missing or wrong", 403)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _answer(request, Http404(), "404 There is no such page", 404)


def server_error(request: HttpRequest, *_: Any) -> HttpResponse:
    """Answer for what nobody caught; Django has logged it."""
    exc = sys.exc_info()[1]
    if isinstance(exc, OperationalError | InterfaceError):
        return _answer(request, exc, "503 The database is away", 503)
    return _answer(request, InternalError(), "500 Internal error", 500)


def _answer(request: HttpRequest, exc: Exception, text: str, status: int) -> HttpResponse:
    if request.path.startswith(API_PREFIX):
        return problem_response(exc, request)
    return HttpResponse(f"{text}\n", status=status, content_type="text/plain; charset=utf-8")
