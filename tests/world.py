"""The four people of the suite: Alice and Bob share a tenant, Charlie has another, Root operates.

Usable with `django_db` and against a running stack that shares the database: names are unique.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from tenants.models import Membership, Tenant, User
from tenants.principal import Principal, Scope
from tests import factories


def bearer(token: str, **more: str) -> dict[str, str]:
    """Return the headers of a request with this key or session; `mcphub_end_user="u"` adds one."""
    extra = {name.replace("_", "-").title(): value for name, value in more.items()}
    return {"Authorization": f"Bearer {token}", **extra}


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody in a tenant, with an API key of all scopes of the role."""

    user: User
    member: Membership
    key: str = field(repr=False)

    @property
    def tenant(self) -> Tenant:
        return self.member.tenant

    @property
    def headers(self) -> Mapping[str, str]:
        return bearer(self.key)

    @property
    def principal(self) -> Principal:
        return factories.principal_of(self.member)

    def headers_with(self, *scopes: Scope) -> Mapping[str, str]:
        """Return the headers of a fresh key with only these scopes."""
        return bearer(factories.make_key(self.member, *scopes).secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    alice: Person
    """Owner of the first tenant."""
    bob: Person
    """Member of the first tenant."""
    charlie: Person
    """Owner of the second tenant: a stranger to Alice and Bob."""
    root: User
    """Operator: staff and superuser, member of nothing."""


def build() -> World:
    """Make the four people; every call makes four others."""
    first = factories.make_tenant("Acme", owner=factories.make_user(factories.unique("alice")))
    bob = factories.make_member(first.tenant, user=factories.make_user(factories.unique("bob")))
    second = factories.make_tenant("Globex", owner=factories.make_user(factories.unique("charlie")))
    return World(
        alice=_person(first),
        bob=_person(bob),
        charlie=_person(second),
        root=factories.make_user(factories.unique("root"), is_operator=True),
    )


@pytest.fixture
def world(db: None) -> World:
    return build()


def _person(member: Membership) -> Person:
    user = member.user
    if user is None:
        raise TypeError("an end user of an app is no Person")
    return Person(user=user, member=member, key=factories.make_key(member).secret)
