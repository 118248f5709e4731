"""The subcommands that work on a hub's database: links, tenants, keys. They load Django."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import django
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, transaction

from mcphub.up import findings
from mcphub.up.environment import defaults
from mcphub.up.errors import StartError
from mcphub.up.home import Home


def use(home: Path) -> None:
    """Load Django for this hub: the environment's settings, completed by the home's files."""
    place = Home(home)
    for name, value in running(place).items():
        os.environ.setdefault(name, value)
    os.environ.update(defaults(place))
    try:
        django.setup()
    except ImproperlyConfigured as exc:
        raise StartError(str(exc)) from exc


def running(place: Home) -> dict[str, str]:
    """Return what the hub that runs in this home chose itself; nothing when none does."""
    try:
        settings: dict[str, str] = json.loads(place.running.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return settings


def admin_link(home: Path, name: str) -> str:
    """Return a link that logs the operator `name` in once."""
    use(home)
    from mcphub.core.errors import HubError  # noqa: PLC0415  (needs the app registry)
    from tenants.models import User  # noqa: PLC0415
    from tenants.services import make_login_link  # noqa: PLC0415

    try:
        user = User.objects.filter(username=name, is_active=True).first()
        if user is None:
            raise StartError(f"there is no user {name!r}")
        return make_login_link(user)
    except DatabaseError as exc:
        raise StartError(f"the database cannot be used: {first_line(exc)}") from exc
    except HubError as exc:
        raise StartError(exc.detail) from exc


def create_tenant(home: Path, name: str, owner: str) -> str:
    """Make a tenant with an owner; returns the owner's API key, which is shown this once."""
    use(home)
    from mcphub.core.errors import HubError  # noqa: PLC0415  (needs the app registry)
    from tenants import api_keys, services  # noqa: PLC0415

    try:
        with transaction.atomic():
            user, _ = services.login_for(owner.lower(), email=owner)
            member = services.create_tenant(name=name, owner=user)
            return api_keys.issue(member, new=api_keys.NewKey(name="first key")).secret
    except DatabaseError as exc:
        raise StartError(f"the database cannot be used: {first_line(exc)}") from exc
    except HubError as exc:
        raise StartError(exc.detail) from exc


def rotate_keys(home: Path) -> str:
    """Reseal every secret under the first key. Raises StartError while rows use another one."""
    use(home)
    from mcphub.core.keys import key_ring  # noqa: PLC0415  (needs the app registry)
    from mcphub.up import rotation  # noqa: PLC0415

    try:
        ring = key_ring()
        result = rotation.rotate(ring)
    except ImproperlyConfigured as exc:
        raise StartError(str(exc)) from exc
    except DatabaseError as exc:
        raise StartError(f"the database cannot be used: {first_line(exc)}") from exc
    if not result.is_complete:
        raise StartError(
            f"{result.left} values still use another key than {ring.primary!r} "
            f"({result.unreadable} of them cannot be opened with any key of the ring); "
            "keep the old keys and run this again"
        )
    return f"resealed {result.resealed} values; every secret is under {ring.primary!r} now"


def doctor(home: Path, only: Sequence[str], *, is_json: bool) -> tuple[str, bool]:
    """Examine the hub; returns the report and whether nothing failed."""
    os.environ.setdefault("MCPHUB_LOG_LEVEL", "ERROR")
    try:
        use(home)
    except StartError as exc:
        report = findings.unloadable(str(exc))
    else:
        from mcphub.up import doctor as examination  # noqa: PLC0415  (needs the app registry)

        report = examination.examine(only)
    return (report.as_json() if is_json else report.as_text()), report.is_healthy


def migrate(home: Path) -> None:
    """Bring the tables up to date; safe to repeat, and while the hub of this version runs."""
    use(home)
    from django.core.management import call_command  # noqa: PLC0415  (loads slowly)

    try:
        call_command("migrate", interactive=False, verbosity=1)
    except DatabaseError as exc:
        raise StartError(f"the database cannot be used: {first_line(exc)}") from exc


def workers(home: Path, slot: str, *, is_json: bool) -> tuple[str, bool]:
    """Return who holds what, and whether anybody (of `slot`) is alive."""
    os.environ.setdefault("MCPHUB_LOG_LEVEL", "ERROR")
    use(home)
    from mcphub.core.errors import HubError  # noqa: PLC0415  (needs the app registry)
    from mcphub.up import workforce  # noqa: PLC0415

    try:
        found = workforce.survey(slot)
    except DatabaseError as exc:
        raise StartError(f"the database cannot be used: {first_line(exc)}") from exc
    except HubError as exc:
        raise StartError(exc.detail) from exc
    text = workforce.as_json(found) if is_json else workforce.as_text(found)
    return text, any(each.is_alive for each in found)


def first_line(exc: Exception) -> str:
    return (str(exc).strip() or type(exc).__name__).splitlines()[0]
