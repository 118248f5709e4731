"""Signed messages to a tenant's app about its members' connections (Standard Webhooks)."""
