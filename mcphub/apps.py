"""Makes the composition root an app: system checks, the Celery app, page templates."""

from importlib import import_module

from django.apps import AppConfig


class McphubConfig(AppConfig):
    name = "mcphub"

    def ready(self) -> None:
        import_module("mcphub.checks")
        import_module("mcphub.celery")  # or tasks would be sent to Celery's default broker
