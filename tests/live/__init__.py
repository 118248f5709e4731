"""The running stack, driven over loopback."""
