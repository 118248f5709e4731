"""Composition root and kernel: settings, wiring, and what every package may use."""

__version__ = "0.1.0"
