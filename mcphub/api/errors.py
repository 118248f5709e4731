"""Problem documents (RFC 9457): the one place where an exception becomes an HTTP answer.

`problem_handler` serves DRF, `problem_response` plain views. Text of upstream servers never gets
into `detail`; a peer's JSON-RPC error travels in `rpc`, as the peer's.
"""

from __future__ import annotations

import logging
import math
import re
import secrets
from collections.abc import Iterator
from typing import Any

from django.core.exceptions import BadRequest, PermissionDenied, RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from rest_framework import exceptions as drf
from rest_framework.response import Response

from mcphub.api.problems import PROBLEMS, TYPE_PREFIX
from mcphub.core.errors import (
    FieldProblem,
    HubError,
    InvalidInputError,
    LimitError,
    NotAuthenticatedError,
    NotFoundError,
    NotPermittedError,
    ProtocolError,
    UnavailableError,
)
from mcphub.core.types import JSONObject, JSONValue

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


class MalformedRequestError(HubError):
    code = "malformed_request"
    status = 400
    title = "The request cannot be read"


class MethodNotAllowedError(HubError):
    code = "method_not_allowed"
    status = 405
    title = "This method is not offered here"


class NotAcceptableError(HubError):
    code = "not_acceptable"
    status = 406
    title = "No offered format is acceptable"


class BodyTooLargeError(HubError):
    code = "body_too_large"
    status = 413
    title = "The request body is too large"


class UnsupportedMediaTypeError(HubError):
    code = "unsupported_media_type"
    status = 415
    title = "The body has an unknown type"


class InternalError(HubError):
    """Stands for an unexpected exception, whose text stays in the log."""


PLAIN: dict[type[Exception], type[HubError]] = {
    Http404: NotFoundError,
    drf.NotFound: NotFoundError,
    PermissionDenied: NotPermittedError,
    drf.PermissionDenied: NotPermittedError,
    drf.NotAuthenticated: NotAuthenticatedError,
    drf.AuthenticationFailed: NotAuthenticatedError,
    RequestDataTooBig: BodyTooLargeError,
    drf.MethodNotAllowed: MethodNotAllowedError,
    drf.NotAcceptable: NotAcceptableError,
    drf.UnsupportedMediaType: UnsupportedMediaTypeError,
    drf.ParseError: MalformedRequestError,
    BadRequest: MalformedRequestError,
}
"""Exceptions of Django and DRF whose own text is not shown."""


def problem_handler(exc: Exception, context: dict[str, Any]) -> Response:
    """Answer for any exception that a DRF view raised (REST_FRAMEWORK["EXCEPTION_HANDLER"])."""
    request: HttpRequest = context["request"]
    error = as_hub_error(exc, request)
    response = Response(document_of(error, request), status=error.status, headers=headers_of(error))
    response.content_type = MEDIA_TYPE
    if isinstance(exc, drf.MethodNotAllowed):
        response["Allow"] = ", ".join(context["view"].allowed_methods)
    return response


def problem_response(exc: Exception, request: HttpRequest) -> HttpResponse:
    """Answer for an exception that a plain (async) view raised."""
    error = as_hub_error(exc, request)
    return JsonResponse(
        document_of(error, request),
        status=error.status,
        headers=headers_of(error),
        content_type=MEDIA_TYPE,
    )


def as_hub_error(exc: Exception, request: HttpRequest) -> HubError:
    """Return the HubError that stands for `exc`; logs what nobody expected."""
    if isinstance(exc, HubError):
        if exc.status >= 500 and not exc.retryable:
            logger.warning("problem code=%s trace=%s", exc.problem_code, trace_id_of(request))
        return exc
    if isinstance(exc, drf.ValidationError):
        return InvalidInputError(problems=list(field_problems(exc.detail)))
    if isinstance(exc, drf.Throttled):
        return LimitError(code="rate_limited", retry_after=getattr(exc, "wait", None))
    if isinstance(exc, OperationalError | InterfaceError):
        logger.warning("database away trace=%s error=%s", trace_id_of(request), type(exc).__name__)
        return UnavailableError("The database is away.", retry_after=1.0)
    for kind, ours in PLAIN.items():
        if isinstance(exc, kind):
            return ours()
    logger.error("unexpected trace=%s", trace_id_of(request), exc_info=exc)
    return InternalError()


def document_of(error: HubError, request: HttpRequest) -> JSONObject:
    """Return the document; `errors` is always there, `retryAfter` and `rpc` where they apply."""
    known = PROBLEMS.get(error.problem_code)
    title = known.title if known else error.title
    document: JSONObject = {
        "type": TYPE_PREFIX + error.problem_code,
        "title": title,
        "status": error.status,
        "detail": title if error.detail == error.title else error.detail,
        "instance": request.path,
        "code": error.problem_code,
        "errors": _errors_of(error),
        "traceId": trace_id_of(request),
        "retryable": error.retryable,
    }
    if error.retry_after is not None:
        document["retryAfter"] = math.ceil(error.retry_after)
    if isinstance(error, ProtocolError):
        rpc = error.rpc
        document["rpc"] = {"code": rpc.code, "message": rpc.message, "data": rpc.data}
    return {**error.extra, **document}


def headers_of(error: HubError) -> dict[str, str]:
    """Return the HTTP headers that belong to the problem."""
    headers = {"Cache-Control": "no-store"}
    if isinstance(error, NotAuthenticatedError):
        headers["WWW-Authenticate"] = 'Bearer realm="mcphub"'
    if error.retry_after is not None:
        headers["Retry-After"] = str(math.ceil(error.retry_after))
        if isinstance(error, LimitError):
            headers |= _rate_headers(error.extra, headers["Retry-After"])
    return headers


def trace_id_of(request: HttpRequest) -> str:
    """Return the caller's W3C trace id, or one made for this request; the same on every call."""
    found: str | None = getattr(request, "mcphub_trace_id", None)
    if found is None:
        match = TRACEPARENT.fullmatch(request.headers.get("traceparent", ""))
        found = match[1] if match else secrets.token_hex(16)
        request.mcphub_trace_id = found  # type: ignore[attr-defined]  # kept on the request
    return found


def field_problems(detail: Any, path: str = "") -> Iterator[FieldProblem]:
    """Flatten DRF's nested validation detail to JSON pointers (RFC 6901)."""
    if isinstance(detail, dict):
        for name, inner in detail.items():
            yield from field_problems(inner, path + _step(str(name)))
    elif isinstance(detail, list):
        for number, inner in enumerate(detail):
            nested = isinstance(inner, dict | list)
            yield from field_problems(inner, f"{path}/{number}" if nested else path)
    else:
        code = getattr(detail, "code", "invalid")
        yield FieldProblem(path=path, message=str(detail), code=code)


def _rate_headers(extra: JSONObject, wait: str) -> dict[str, str]:
    """Say which limit was met, as draft-ietf-httpapi-ratelimit-headers §3 and §4 spell it."""
    name = f'"{extra.get("limit", "default")}"'
    headers = {"RateLimit": f"{name};r=0;t={wait}"}
    if "quota" in extra and "window" in extra:
        headers["RateLimit-Policy"] = f"{name};q={extra['quota']};w={extra['window']}"
    return headers


def _step(name: str) -> str:
    if name == "non_field_errors":
        return ""
    return "/" + name.replace("~", "~0").replace("/", "~1")


def _errors_of(error: HubError) -> JSONValue:
    if not isinstance(error, InvalidInputError):
        return []
    return [_problem_of(problem) for problem in error.problems]


def _problem_of(problem: FieldProblem) -> JSONObject:
    told: JSONObject = {"path": problem.path, "message": problem.message, "code": problem.code}
    return {**told, "property": problem.property} if problem.property else told
