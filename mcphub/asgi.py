"""The ASGI application of a web process; wiring only."""

from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcphub.settings")

application = get_asgi_application()
