"""Upstream servers that use everything that the protocol has, one an era, byte by byte."""
