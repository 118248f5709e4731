"""Makes the composition root an app: system checks and the documentation page's template."""

from importlib import import_module

from django.apps import AppConfig


class McphubConfig(AppConfig):
    name = "mcphub"

    def ready(self) -> None:
        import_module("mcphub.checks")
