"""The whole hub, started as its user starts it."""
