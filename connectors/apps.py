"""Django's name for this app."""

from django.apps import AppConfig


class ConnectorsConfig(AppConfig):
    name = "connectors"
