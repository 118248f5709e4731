"""Newcomer: somebody with a tenant that no other test uses."""

from __future__ import annotations

from dataclasses import dataclass

import httpx

from tenants.models import Membership
from tests.factories import make_key, make_member, make_tenant
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
    return as_newcomer(hub, member)


def colleague_at(hub: RunningHub, newcomer: Newcomer) -> Newcomer:
    """Make another member of a newcomer's tenant."""
    return as_newcomer(hub, make_member(newcomer.member.tenant))


def as_newcomer(hub: RunningHub, member: Membership) -> Newcomer:
    secret = make_key(member).secret
    return Newcomer(member, secret, hub.client(secret))
