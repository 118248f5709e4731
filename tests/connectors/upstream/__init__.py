"""Tests of the upstream protocol layer."""
