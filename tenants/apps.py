"""Django's name for this app."""

from django.apps import AppConfig


class TenantsConfig(AppConfig):
    name = "tenants"
