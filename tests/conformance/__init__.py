"""The official conformance suite against the hub."""
