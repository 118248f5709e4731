"""Who is asking: credentials, members, tickets, sockets."""
