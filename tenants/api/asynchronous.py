"""Decorator of plain async views that need a Principal."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from mcphub.api.asynchronous import answers_problems
from mcphub.api.errors import MethodNotAllowedError, problem_response
from mcphub.core.patience import database_patience
from tenants.api.authentication import principal_of
from tenants.principal import Principal, Scope

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, Principal, P], Coroutine[Any, Any, HttpResponseBase]]
Route = Callable[Concatenate[HttpRequest, P], Coroutine[Any, Any, HttpResponseBase]]


def async_view(*methods: str, scope: Scope | None = None) -> Callable[[View[P]], Route[P]]:
    """Make `async def view(request, principal, …)` a route.

    It authenticates (any credential; CSRF for login sessions), requires `scope`, refuses other
    methods and answers every exception as a problem document.
    """

    def decorate(view: View[P]) -> Route[P]:
        @wraps(view)
        async def route(
            request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs
        ) -> HttpResponseBase:
            async with database_patience():
                principal = await principal_of(request)
            if request.method not in methods:
                return _not_allowed(request, methods)
            if scope is not None:
                principal.require(scope)
            return await view(request, principal, *args, **kwargs)

        return csrf_exempt(answers_problems(route))  # CSRF is checked in principal_of

    return decorate


def _not_allowed(request: HttpRequest, methods: tuple[str, ...]) -> HttpResponse:
    response = problem_response(MethodNotAllowedError(), request)
    response["Allow"] = ", ".join(methods)
    return response
