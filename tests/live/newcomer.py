"""Newcomer: somebody with a tenant that no other test uses."""

from __future__ import annotations

from dataclasses import dataclass

import httpx

from tenants.models import Membership
from tests.factories import make_key, make_tenant
from tests.live.stack import RunningHub


@dataclass(frozen=True, slots=True)
class Newcomer:
    """The owner of a fresh tenant, with a key of every scope and a client that shows it."""

    member: Membership
    api_key: str
    http: httpx.Client


def newcomer_at(hub: RunningHub) -> Newcomer:
    """Make the tenant in the database that the hub uses."""
    member = make_tenant()
    secret = make_key(member).secret
    return Newcomer(member, secret, hub.client(secret))
