"""An authorization server that nobody here wrote (django-oauth-toolkit), in a process of its own.

`python -m tests.fakes.toolkit_server PORT RESOURCE FOLDER`; its person always agrees. Prints one
line when it listens.
"""

from __future__ import annotations

import sys
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import django
from django.conf import settings
from django.contrib.auth import get_user_model, login
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse

SCOPES = {"files:read": "Read files", "files:write": "Write files", "introspection": "Look up"}


class Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (its name)
        """Say nothing."""


class AlwaysAgrees:
    """Logs the one person in, and lets every client of theirs through without a question."""

    def __init__(self, get_response: Any) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not request.user.is_authenticated and request.path.endswith("/authorize/"):
            from oauth2_provider.models import get_application_model  # noqa: PLC0415  (set up late)

            get_application_model().objects.update(skip_authorization=True)
            login(request, get_user_model().objects.get(username="alice"))
        response: HttpResponse = self._get_response(request)
        return response


def configure(port: int, folder: str) -> None:
    settings.configure(
        SECRET_KEY="of the test",
        DEBUG=False,
        ALLOWED_HOSTS=["127.0.0.1"],
        ROOT_URLCONF="tests.fakes.toolkit_urls",
        DATABASES={
            "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{folder}/toolkit.sqlite3"}
        },
        INSTALLED_APPS=[
            *("django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions"),
            "oauth2_provider",
        ],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            f"{__name__}.AlwaysAgrees",
        ],
        OAUTH2_PROVIDER={
            "SCOPES": SCOPES,
            "DEFAULT_SCOPES": ["files:read"],
            "PKCE_REQUIRED": True,
            "ROTATE_REFRESH_TOKEN": True,
            "REFRESH_TOKEN_GRACE_PERIOD_SECONDS": 0,
            "REFRESH_TOKEN_REUSE_PROTECTION": True,
            "DCR_ENABLED": True,
            "COMPLIANT_BCP_RFC9700_AUTHZ_RESPONSE_ISS": True,
            "DCR_REGISTRATION_PERMISSION_CLASSES": ["oauth2_provider.dcr.AllowAllDCRPermission"],
            "OIDC_ISS_ENDPOINT": f"http://127.0.0.1:{port}",
        },
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        LOGGING_CONFIG=None,
        USE_TZ=True,
    )


def main(port: int, folder: str) -> None:
    configure(port, folder)
    django.setup()
    call_command("migrate", verbosity=0)
    get_user_model().objects.create_user("alice")
    from oauth2_provider.models import get_application_model  # noqa: PLC0415  (set up late)

    get_application_model().objects.create(
        client_id="resource-server",
        client_secret="of-the-test",
        client_type="confidential",
        authorization_grant_type="client-credentials",
    )
    with make_server("127.0.0.1", port, get_wsgi_application(), handler_class=Quiet) as server:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        server.serve_forever(0.1)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[3])
