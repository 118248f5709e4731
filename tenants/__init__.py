"""Who is asking: tenants, members, the hub's own credentials, and the Principal they become."""
