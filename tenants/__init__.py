"""Who is asking: tenants, members, credentials of the hub itself, and the Principal that they resolve to."""
