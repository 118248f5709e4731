"""What of a log record is written: a refused request is one line, whatever refused it."""

from __future__ import annotations

import logging

SERVER_ERROR = 500


class RefusalsInOneLine(logging.Filter):
    """Django logs a wrong Host header as an error with a traceback; it is a client's fault."""

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, "status_code", SERVER_ERROR) < SERVER_ERROR:
            record.exc_info = record.exc_text = None
            if record.levelno > logging.WARNING:
                record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True
