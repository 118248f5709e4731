"""What stops `mcphub up`: each is one clear line for the person at the keyboard."""

from __future__ import annotations


class StartError(Exception):
    """The hub cannot start; the text is the line to show."""


class StoppedError(Exception):
    """Somebody asked to stop while the hub was starting."""
