"""`manage.py create_api_key acme alice --scope servers:read`: a key, printed once."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from tenants import api_keys
from tenants.models import Membership
from tenants.principal import Scope


class Command(BaseCommand):
    help = "Make an API key for a member and print it; it cannot be read again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("tenant", help="Short name of the tenant.")
        parser.add_argument("user", help="User name of the member.")
        parser.add_argument("--name", default="command line")
        parser.add_argument(
            "--scope",
            action="append",
            choices=[scope.value for scope in Scope],
            help="May be repeated; left out: all that the member's role allows.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        member = Membership.unscoped.filter(
            tenant__slug=options["tenant"], user__username=options["user"]
        ).first()
        if member is None:
            raise CommandError("There is no such member in this tenant.")
        chosen = options["scope"]
        scopes = frozenset(map(Scope, chosen)) if chosen else None
        issued = api_keys.issue(member, new=api_keys.NewKey(name=options["name"], scopes=scopes))
        self.stdout.write(issued.secret)
