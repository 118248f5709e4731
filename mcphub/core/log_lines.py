"""What of a log record is written: a refused request in one line, no link that logs in."""

from __future__ import annotations

import logging
import re

SERVER_ERROR = 500
LOGIN_LINK = re.compile(r"(/login/once/)[^\s\"?]+")


class RefusalsInOneLine(logging.Filter):
    """Django logs a wrong Host header as an error with a traceback; it is a client's fault."""

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, "status_code", SERVER_ERROR) < SERVER_ERROR:
            record.exc_info = record.exc_text = None
            if record.levelno > logging.WARNING:
                record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


class LoginLinksRedacted(logging.Filter):
    """Django logs the path of every refused request; a look ahead (HEAD) leaves a link usable."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        redacted = LOGIN_LINK.sub(r"\1[redacted]", message)
        if redacted != message:
            record.msg, record.args = redacted, ()
        return True
