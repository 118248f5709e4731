"""Measurements of the running product against a direct client; `make bench` prints the table."""
