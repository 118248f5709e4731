"""Django's name for this app."""

from importlib import import_module

from django.apps import AppConfig


class ConnectorsConfig(AppConfig):
    name = "connectors"
    verbose_name = "Servers and calls"

    def ready(self) -> None:
        import_module("connectors.receivers").connect()
