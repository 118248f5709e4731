"""What a user can connect to, and doing it: presets, servers, connections, calls."""
