"""The problem document that a test expects, whole."""

from __future__ import annotations

from typing import Any
from unittest.mock import ANY

from mcphub.api.problems import PROBLEMS

BEARER = 'Bearer realm="mcphub"'


def problem(code: str, instance: str, detail: str | None = None, **more: Any) -> dict[str, Any]:
    """Return the document of `code` for the path `instance`; `detail` None: the title again."""
    kind = PROBLEMS[code]
    return {
        "type": f"urn:mcphub:problem:{code}",
        "title": kind.title,
        "status": kind.status,
        "detail": kind.title if detail is None else detail,
        "instance": instance,
        "code": code,
        "errors": [],
        "traceId": ANY,
        "retryable": False,
        **more,
    }


def wrong(path: str, message: str, code: str = "invalid") -> dict[str, str]:
    """Return one entry of `errors`."""
    return {"path": path, "message": message, "code": code}
