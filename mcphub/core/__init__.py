"""Kernel: errors, crypto, egress, ids, clock, events; imports nothing of the other packages."""
