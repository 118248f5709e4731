"""One web process on a listening socket that the supervisor holds: its death loses no port."""

from __future__ import annotations

import socket
import sys

import uvicorn

GRACEFUL_SECONDS = 5


def main(descriptor: int) -> None:
    """Serve on a listening socket that was inherited."""
    serve(socket.socket(fileno=descriptor))


def serve(listener: socket.socket) -> None:
    """Serve until SIGTERM; requests that run may finish for a few seconds."""
    config = uvicorn.Config(
        "mcphub.asgi:application",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=65,
        timeout_graceful_shutdown=GRACEFUL_SECONDS,
        ws_max_size=1 << 20,
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main(int(sys.argv[1]))
