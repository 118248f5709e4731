"""Django's name for this app."""

from importlib import import_module

from django.apps import AppConfig


class TenantsConfig(AppConfig):
    name = "tenants"
    verbose_name = "Tenants and members"

    def ready(self) -> None:
        import_module("tenants.receivers")
