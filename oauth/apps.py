"""Django's name for this app."""

from django.apps import AppConfig


class OauthConfig(AppConfig):
    name = "oauth"
    verbose_name = "Signing in at servers (OAuth)"
