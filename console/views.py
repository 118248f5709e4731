"""The page at `/`: what this is, how it does, and the first steps with commands to copy."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from mcphub import __version__


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    return render(
        request,
        "console/home.html",
        {
            "version": __version__,
            "api": f"{settings.BASE_URL}/api/v1",
            "events": f"{settings.BASE_URL.replace('http', 'ws', 1)}/ws/v1/events",
        },
    )
