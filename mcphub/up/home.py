"""The private directory of one hub (keys, database, broker files, logs) and its lock."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mcphub.up.errors import StartError

SOCKET_PATH_MAX = 100
"""Bytes of a unix socket path that every platform takes (Linux: 107, macOS: 103)."""
LOG_MAX_BYTES = 10 << 20


def default_home() -> Path:
    """Return `.mcphub` in the user's own directory."""
    try:
        return Path.home() / ".mcphub"
    except RuntimeError as exc:
        raise StartError("there is no home directory; choose one: --home DIR") from exc


@dataclass(frozen=True, slots=True)
class Home:
    """Paths below one 0700 directory."""

    root: Path

    @property
    def database(self) -> Path:
        return self.root / "hub.sqlite3"

    @property
    def keys(self) -> Path:
        return self.root / "keys"

    @property
    def secret_key(self) -> Path:
        return self.root / "secret_key"

    @property
    def api_key(self) -> Path:
        return self.root / "api_key"

    @property
    def children(self) -> Path:
        """Which process is what: {"web1": 4711, …}, rewritten at every start of a child."""
        return self.root / "children.json"

    @property
    def running(self) -> Path:
        """Settings of the hub that runs here and were not chosen by its user, as JSON."""
        return self.root / "running.json"

    @property
    def valkey(self) -> Path:
        return self.root / "valkey"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    def create(self) -> None:
        """Make the directories, for the owner only. Raises StartError when that cannot be."""
        try:
            for directory in (self.root, self.valkey, self.logs):
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.root.chmod(0o700)
            probe = self.root / f".probe-{os.getpid()}"
            probe.touch()
            probe.unlink()
        except OSError as exc:
            raise StartError(
                f"cannot write to {self.root} ({exc.strerror}); choose another place: --home DIR"
            ) from exc

    def lock(self) -> int:
        """Keep every other hub out of this directory as long as the returned descriptor is open."""
        descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise StartError(
                f"{self.root} is in use by another mcphub (process {holder or 'unknown'}); "
                "stop that one, or choose another place: --home DIR"
            ) from exc
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getppid()}\n".encode(), 0)
        return descriptor

    def secret(self, path: Path, make: Callable[[], str]) -> str:
        """Return what the file holds; a missing one is written first, whole or not at all."""
        try:
            text = path.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            text = make()
            write_private(path, text)
        except (OSError, UnicodeDecodeError) as exc:
            raise StartError(f"cannot read {path}; restore it from a backup") from exc
        if not text:
            raise StartError(f"{path} is empty; restore it from a backup")
        return text

    def log(self, name: str) -> Path:
        """Return the log file of a child; one that has grown large is set aside as `.1`."""
        path = self.logs / f"{name}.log"
        if path.exists() and path.stat().st_size > LOG_MAX_BYTES:
            path.replace(path.with_suffix(".log.1"))
        return path

    def socket_directory(self) -> Path:
        """Return a private directory that is short enough for a unix socket."""
        if len(os.fsencode(self.valkey / "v.sock")) <= SOCKET_PATH_MAX:
            return self.valkey
        return Path(tempfile.mkdtemp(prefix="mcphub-"))

    def forget_socket_directory(self, directory: Path) -> None:
        if directory != self.valkey:
            shutil.rmtree(directory, ignore_errors=True)


def write_private(path: Path, text: str) -> None:
    """Write a 0600 file by rename, so that a reader sees all of it or the one before."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, f"{text}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    draft.replace(path)


def new_secret_key() -> str:
    return secrets.token_urlsafe(50)
