"""Typed readers of the environment; a bad value stops the start with one clear line.

Every reader takes `NAME` from the environment, or from the file that `NAME_FILE` names (for secrets
mounted as files).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

TRUE = {"1", "true", "yes", "on"}
FALSE = {"0", "false", "no", "off", ""}
NEED_HOST = {"http", "https", "redis", "rediss"}
HIGHEST_PORT = 65535
EXIT_REFUSED = 2
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

known: set[str] = set()
"""The name of every setting that was read."""


@contextmanager
def refusing_bad_settings(program: str = "mcphub") -> Iterator[None]:
    """End the process with one line on standard error, and no traceback, for a bad setting."""
    try:
        yield
    except ImproperlyConfigured as exc:
        print(f"{program}: {exc}", file=sys.stderr)  # noqa: T201  (logging is not set up yet)
        raise SystemExit(EXIT_REFUSED) from None


def text(name: str, default: str = "") -> str:
    """Return the value of `NAME`, else what the file of `NAME_FILE` holds, else the default."""
    known.add(name)
    value = os.environ.get(name)
    if value is not None:
        return value.strip()
    file = os.environ.get(f"{name}_FILE")
    if not file:
        return default
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except OSError as exc:
        raise ImproperlyConfigured(f"{name}_FILE: cannot read {file}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise ImproperlyConfigured(f"{name}_FILE: {file} is not UTF-8 text") from exc


def flag(name: str, *, default: bool = False) -> bool:
    value = text(name, "1" if default else "0").lower()
    if value in TRUE:
        return True
    if value in FALSE:
        return False
    raise ImproperlyConfigured(f"{name}: {value!r} is not a yes or no (use 1 or 0)")


def integer(name: str, default: int, *, minimum: int = 0, maximum: int = 2**31) -> int:
    value = text(name) or str(default)
    try:
        number = int(value)
    except ValueError as exc:
        raise ImproperlyConfigured(f"{name}: {value!r} is not a whole number") from exc
    if not minimum <= number <= maximum:
        raise ImproperlyConfigured(f"{name}: {number} is not between {minimum} and {maximum}")
    return number


def seconds(name: str, default: float, *, maximum: float = 366 * 86400.0) -> float:
    """Return a duration in seconds; accepts `90`, `90s`, `15m`, `250ms`, `2h`, `30d`."""
    value = text(name) or f"{default}s"
    digits = value.rstrip("smhd")
    unit = value[len(digits) :] or "s"
    try:
        number = float(digits) * UNITS[unit]
    except (KeyError, ValueError) as exc:
        raise ImproperlyConfigured(
            f"{name}: {value!r} is not a duration such as 90s or 15m"
        ) from exc
    if not 0 <= number <= maximum:
        raise ImproperlyConfigured(f"{name}: {value!r} is not between 0 and {maximum:.0f} seconds")
    return number


def items(name: str, default: str = "", *, check: Callable[[str], object] = str) -> list[str]:
    """Return a comma-separated list, empty items dropped; `check` raises ValueError."""
    found = [item.strip() for item in text(name, default).split(",") if item.strip()]
    try:
        for item in found:
            check(item)
    except ValueError as exc:
        raise ImproperlyConfigured(f"{name}: {exc}") from exc
    return found


def ports(name: str, default: str = "") -> list[int]:
    """Return a comma-separated list of port numbers."""
    return [int(port) for port in items(name, default, check=_check_port)]


def _check_port(value: str) -> None:
    is_number = value.isascii() and value.isdecimal()
    if not is_number or not 1 <= int(value[:6]) <= HIGHEST_PORT:
        raise ValueError(f"{value!r} is not a port number between 1 and {HIGHEST_PORT}")


def choice(name: str, default: str, *, of: tuple[str, ...]) -> str:
    """Return one of some words, in capitals."""
    value = (text(name) or default).upper()
    if value not in of:
        raise ImproperlyConfigured(f"{name}: {value!r} is not one of {', '.join(of)}")
    return value


def url(name: str, default: str, *, schemes: tuple[str, ...]) -> str:
    """Return a URL of one of the schemes; errors never quote it, it may hold a password."""
    value = text(name, default)
    if not value:
        return value
    try:
        parts = urlsplit(value)
        port = parts.port
        is_complete = parts.scheme not in NEED_HOST or bool(parts.hostname and port != 0)
    except ValueError:
        raise ImproperlyConfigured(f"{name}: is not a URL") from None
    if parts.scheme not in schemes:
        raise ImproperlyConfigured(f"{name}: needs a URL that starts with {' or '.join(schemes)}")
    if not is_complete:
        raise ImproperlyConfigured(f"{name}: needs a host name in its URL")
    return value
