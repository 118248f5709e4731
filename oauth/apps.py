"""Django's name for this app."""

from django.apps import AppConfig


class OauthConfig(AppConfig):
    name = "oauth"
