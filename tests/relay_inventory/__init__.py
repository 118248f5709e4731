"""What the gateway relays, measured against fixtures that use everything."""
