"""Django's name for this app."""

from django.apps import AppConfig


class GatewayConfig(AppConfig):
    name = "gateway"
