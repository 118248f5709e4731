"""Django's name for this app."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    name = "console"
