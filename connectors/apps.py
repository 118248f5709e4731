"""Django's name for this app."""

from importlib import import_module

from django.apps import AppConfig


class ConnectorsConfig(AppConfig):
    name = "connectors"

    def ready(self) -> None:
        import_module("connectors.receivers").connect()
