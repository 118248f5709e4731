"""`python -m mcphub.demo`: the demo server as a process of its own, on loopback only."""

from __future__ import annotations

import argparse
import socket

import uvicorn

from mcphub.demo.server import build


def main() -> None:
    parser = argparse.ArgumentParser(prog="mcphub.demo")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--fd", type=int, help="a listening socket that the parent holds")
    arguments = parser.parse_args()
    listener = listening_on(arguments.fd, arguments.port)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)  # noqa: T201
    config = uvicorn.Config(
        build().streamable_http_app(),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=2,
    )
    uvicorn.Server(config).run(sockets=[listener])


def listening_on(descriptor: int | None, port: int) -> socket.socket:
    if descriptor is not None:
        return socket.socket(fileno=descriptor)
    listener = socket.create_server(("127.0.0.1", port))
    listener.set_inheritable(True)
    return listener


if __name__ == "__main__":
    main()
