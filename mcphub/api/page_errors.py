"""Errors that leave a page: what a person is told where an API client would get a problem."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils.deprecation import MiddlewareMixin

from mcphub.api.errors import headers_of, problem_response
from mcphub.core.errors import HubError

TEXT = "text/plain; charset=utf-8"


class PageErrorMiddleware(MiddlewareMixin):
    """Answers a HubError that a page (login, admin site) let through: its status, its words."""

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not isinstance(exception, HubError):
            return None
        if not request.accepts("text/html"):
            return problem_response(exception, request)
        words = f"{exception.title}. {exception.detail}".strip()
        again = " Try again in a moment." if exception.retry_after else ""
        headers = headers_of(exception)
        return HttpResponse(
            f"{words}{again}\n", status=exception.status, headers=headers, content_type=TEXT
        )
