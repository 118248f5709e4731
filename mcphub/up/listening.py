"""Listening sockets that the supervisor binds and its children inherit."""

from __future__ import annotations

import errno
import socket
from ipaddress import ip_address

from mcphub.up.errors import StartError

BACKLOG = 2048


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes any free one. Raises StartError with the way out."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError, OverflowError) as exc:
        raise StartError(f"{host} is no address of this machine: --host 127.0.0.1") from exc
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as exc:
        listener.close()
        raise StartError(explain(exc, host, port)) from exc
    listener.set_inheritable(True)
    return listener


def explain(exc: OSError, host: str, port: int) -> str:
    if exc.errno == errno.EADDRINUSE:
        return (
            f"port {port} is taken; stop what uses it, or choose another: --port 0 takes a free one"
        )
    if exc.errno == errno.EACCES:
        return f"port {port} needs more rights; choose one above 1023: --port 8000"
    return f"cannot listen on {host} port {port} ({exc.strerror})"


def is_loopback(listener: socket.socket) -> bool:
    """Whether only this machine can reach the socket."""
    return ip_address(listener.getsockname()[0]).is_loopback


def url(host: str, listener: socket.socket) -> str:
    """Return the address under which a browser on this machine reaches the socket."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104  (compared, not bound)
    if ":" in shown and not shown.startswith("["):
        shown = f"[{shown}]"
    return f"http://{shown}:{listener.getsockname()[1]}"
