"""Composition root and kernel of mcphub: settings, wiring, and what every package may use (`core`, `api`)."""

__version__ = "0.1.0"
