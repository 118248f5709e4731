"""Django's name for this app."""

from django.apps import AppConfig


class TracingConfig(AppConfig):
    name = "tracing"
    verbose_name = "Trace"
