"""Servers to test against: real ones built with the SDK, and hostile ones that write bytes."""
