"""What plain async Django views share: JSON bodies within limits, and problems as answers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from mcphub.api.errors import (
    BodyTooLargeError,
    UnsupportedMediaTypeError,
    problem_response,
)
from mcphub.api.parsers import read_json
from mcphub.core.errors import InvalidInputError
from mcphub.core.types import JSONObject

logger = logging.getLogger(__name__)

P = ParamSpec("P")
AsyncView = Callable[Concatenate[HttpRequest, P], Coroutine[Any, Any, HttpResponseBase]]


def answers_problems(view: AsyncView[P]) -> AsyncView[P]:
    """Turn every exception of the view into a problem document; unexpected ones are logged."""

    @wraps(view)
    async def wrapped(
        request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs
    ) -> HttpResponseBase:
        try:
            return await view(request, *args, **kwargs)
        except Exception as exc:  # noqa: BLE001  (the request boundary; problem_response logs it)
            return problem_response(exc, request)

    return wrapped


def json_body(request: HttpRequest, *, limit: int) -> JSONObject:
    """Return the request's JSON object; an empty body is an empty object.

    Raises BodyTooLargeError over `limit` bytes, UnsupportedMediaTypeError, MalformedRequestError,
    and InvalidInputError for JSON that is no object.
    """
    if int(request.headers.get("content-length") or 0) > limit:
        raise BodyTooLargeError(f"The body may have {limit} bytes.")
    body = request.body
    if len(body) > limit:
        raise BodyTooLargeError(f"The body may have {limit} bytes.")
    if not body:
        return {}
    kind = request.content_type or ""
    if kind != "application/json" and not kind.endswith("+json"):
        raise UnsupportedMediaTypeError
    value = read_json(body)
    if not isinstance(value, dict):
        raise InvalidInputError("The body has to be a JSON object.")
    return value
