"""Permission to act for a user at an upstream server (OAuth 2.1)."""
