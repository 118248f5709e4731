"""Tests of signing in at upstream servers; names carry the ids of the reference tables."""
