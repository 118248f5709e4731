"""How the gateway shows servers to a downstream client. Pure: no Django, no input or output."""
