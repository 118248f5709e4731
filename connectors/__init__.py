"""What a user can connect to, and doing it: presets, custom servers, connections, sessions, calls."""
