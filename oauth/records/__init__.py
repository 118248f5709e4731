"""The package's database work: small, synchronous, one transaction per function."""
