"""Chaos suite: the production stack on loopback, faults between its parts, promises checked."""
