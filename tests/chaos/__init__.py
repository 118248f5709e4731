"""The chaos suite's own parts, and the subset of it that every test run includes."""
