"""`manage.py create_tenant acme --owner alice`: a tenant and its owner."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from mcphub.core.errors import ConflictError, InvalidInputError
from tenants import services


class Command(BaseCommand):
    help = "Make a tenant with an owner, and print a link with which the owner logs in once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug")
        parser.add_argument("--name", default="", help="Left out: the short name.")
        parser.add_argument("--owner", required=True, help="User name; made when there is none.")

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["name"] or options["slug"]
        try:
            with transaction.atomic():
                owner, is_new = services.login_for(options["owner"])
                services.create_tenant(name=name, slug=options["slug"], owner=owner)
        except (ConflictError, InvalidInputError) as exc:
            raise CommandError(exc.detail) from exc
        self.stdout.write(f"Tenant {options['slug']} with owner {owner.username}.")
        if is_new:
            self.stdout.write(f"Log in once: {services.make_login_link(owner, to='/')}")
