"""The `mcphub` command. Only what a subcommand needs is loaded: `up` runs without Django."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from mcphub import __version__
from mcphub.up.environment import Options
from mcphub.up.errors import StartError
from mcphub.up.home import default_home

EXIT_REFUSED = 2

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001  (unnamed in public)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand. Returns the exit code: 0, or 2 with one line that says why not."""
    options = parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except StartError as exc:
        print(f"mcphub: {exc}", file=sys.stderr)
        return EXIT_REFUSED


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(prog="mcphub", description="Connector service for MCP.")
    commands = root.add_subparsers(required=True, metavar="COMMAND")
    add_up(commands.add_parser("up", help="start the whole hub on this machine"))
    link = commands.add_parser("admin-link", help="print a link that logs an operator in once")
    link.add_argument("--user", default="owner")
    add_home(link)
    link.set_defaults(run=admin_link)
    tenant = commands.add_parser("create-tenant", help="make a tenant and print its first API key")
    tenant.add_argument("name")
    tenant.add_argument("--owner", required=True, metavar="EMAIL")
    add_home(tenant)
    tenant.set_defaults(run=create_tenant)
    rotate = commands.add_parser("rotate-keys", help="seal every secret under the first key")
    add_home(rotate)
    rotate.set_defaults(run=rotate_keys)
    add_roles(commands)
    add_looks(commands)
    add_console(commands.add_parser("console", help="the page at / as a file"))
    version = commands.add_parser("version", help="print the version")
    version.set_defaults(run=show_version)
    return root


def add_up(command: argparse.ArgumentParser) -> None:
    command.add_argument("--host", default="127.0.0.1", help="address to listen on")
    command.add_argument("--port", type=port, default=8000, help="0 takes a free one")
    add_home(command)
    command.add_argument("--workers", type=count, default=1, metavar="N")
    command.add_argument("--webs", type=count, default=1, metavar="N")
    command.add_argument("--json", action="store_true", help="one line of JSON when it is ready")
    command.set_defaults(run=up)


def add_roles(commands: Commands) -> None:
    """One process in the foreground each, configured by the environment alone."""
    web = commands.add_parser("web", help="one web process (settings from the environment)")
    web.add_argument("--host", default="127.0.0.1", help="address to listen on")
    web.add_argument("--port", type=port, default=8000)
    web.set_defaults(run=lambda options: _roles().web(options.host, options.port))
    worker = commands.add_parser("worker", help="one worker process")
    worker.add_argument("--slot", default="", help="a name that no other worker has at a time")
    worker.set_defaults(run=lambda options: _roles().worker(options.slot))
    beat = commands.add_parser("beat", help="the clock of the sweeps")
    beat.set_defaults(run=lambda _options: _roles().beat())
    migrate = commands.add_parser("migrate", help="bring the database up to date")
    add_home(migrate)
    migrate.set_defaults(run=run_migrate)


def add_looks(commands: Commands) -> None:
    doctor = commands.add_parser("doctor", help="look at every part that the hub needs")
    names = "settings keys egress database migrations redis clock workers beat"
    doctor.add_argument("--only", nargs="+", default=[], choices=names.split(), metavar="CHECK")
    doctor.add_argument("--json", action="store_true")
    add_home(doctor)
    doctor.set_defaults(run=run_doctor)
    workers = commands.add_parser("workers", help="who is alive, and who holds what")
    workers.add_argument("--slot", default="", help="this one alone; exit code 1 if it is gone")
    workers.add_argument("--json", action="store_true")
    add_home(workers)
    workers.set_defaults(run=run_workers)


def add_home(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--home", type=Path, metavar="DIR", help="keys, database and logs (default: ~/.mcphub)"
    )


def add_console(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(required=True, metavar="ACTION")
    export = actions.add_parser("export", help="write one HTML file that needs no server")
    export.add_argument("file", type=Path, metavar="FILE")
    export.set_defaults(run=export_console)


def up(arguments: argparse.Namespace) -> int:
    from mcphub.up import front, startup  # noqa: PLC0415  (signals and processes: for `up` alone)

    options = Options(
        host=arguments.host,
        port=arguments.port,
        home=home_of(arguments),
        workers=arguments.workers,
        webs=arguments.webs,
        is_json=arguments.json,
    )
    return front.run(lambda pipe: startup.supervise(options, pipe))


def admin_link(arguments: argparse.Namespace) -> int:
    from mcphub.up import operations  # noqa: PLC0415  (loads Django)

    print(operations.admin_link(home_of(arguments), arguments.user))
    return 0


def create_tenant(arguments: argparse.Namespace) -> int:
    from mcphub.up import operations  # noqa: PLC0415  (loads Django)

    print(operations.create_tenant(home_of(arguments), arguments.name, arguments.owner))
    return 0


def rotate_keys(arguments: argparse.Namespace) -> int:
    from mcphub.up import operations  # noqa: PLC0415  (loads Django)

    print(f"mcphub: {operations.rotate_keys(home_of(arguments))}")
    return 0


def run_migrate(arguments: argparse.Namespace) -> int:
    from mcphub.up import operations  # noqa: PLC0415  (loads Django)

    operations.migrate(home_of(arguments))
    return 0


def run_doctor(arguments: argparse.Namespace) -> int:
    from mcphub.up import operations  # noqa: PLC0415  (loads Django)

    text, is_healthy = operations.doctor(home_of(arguments), arguments.only, is_json=arguments.json)
    print(text)
    return 0 if is_healthy else 1


def run_workers(arguments: argparse.Namespace) -> int:
    from mcphub.up import operations  # noqa: PLC0415  (loads Django)

    text, is_alive = operations.workers(home_of(arguments), arguments.slot, is_json=arguments.json)
    print(text)
    return 0 if is_alive else 1


def _roles() -> Any:
    from mcphub.up import roles  # noqa: PLC0415  (loads the server)

    return roles


def export_console(arguments: argparse.Namespace) -> int:
    from console import assets  # noqa: PLC0415  (for this command alone)

    file: Path = arguments.file
    try:
        file.write_text(assets.one_page(), encoding="utf-8")
    except OSError as exc:
        raise StartError(f"{file} cannot be written: {exc.strerror}") from exc
    return 0


def show_version(_arguments: argparse.Namespace) -> int:
    print(__version__)
    return 0


def home_of(arguments: argparse.Namespace) -> Path:
    chosen: Path = arguments.home or default_home()
    return chosen.expanduser().absolute()


def port(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError("a port is between 0 and 65535")
    return number


def count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 64:
        raise argparse.ArgumentTypeError("between 1 and 64")
    return number


if __name__ == "__main__":
    sys.exit(main())
