"""Django's name for this app; it registers its tokens as a kind of credential."""

from importlib import import_module

from django.apps import AppConfig


class LoginConfig(AppConfig):
    name = "gateway.login"
    label = "gateway_login"
    verbose_name = "Signed-in MCP clients"

    def ready(self) -> None:
        import_module("gateway.login.principals").register()
