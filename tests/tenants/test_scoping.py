"""The tenant manager fails closed: no method of it reaches a row without a principal."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps
from django.db import models

from tenants.models import ApiKey, Membership
from tenants.scoping import TenantManager, TenantRequiredError, TenantScoped
from tests.world import World

NO_QUERY = {
    "check",
    "contribute_to_class",
    "db_manager",
    "deconstruct",
    "from_queryset",
    "of",
}


def query_methods() -> list[str]:
    """Return every public method of the manager that could reach a row."""
    found = inspect.getmembers(Membership.objects, predicate=inspect.ismethod)
    return sorted(name for name, _ in found if not name.startswith("_") and name not in NO_QUERY)


def call(method: Callable[..., Any]) -> Any:
    answer = method()
    if inspect.isasyncgen(answer):
        return asyncio.run(anext(answer))
    return asyncio.run(answer) if inspect.iscoroutine(answer) else answer


@pytest.mark.parametrize("name", query_methods())
def test_every_method_of_the_manager_raises(name: str) -> None:
    with pytest.raises(TenantRequiredError):
        call(getattr(Membership.objects, name))


def test_the_walk_over_the_manager_saw_all_of_a_query_set() -> None:
    methods = query_methods()
    assert {"all", "aget", "get", "iterator", "aiterator", "exists", "aexists"} <= set(methods)
    assert len(methods) > 55


def test_every_row_with_a_tenant_has_the_closed_manager() -> None:
    scoped = [model for model in apps.get_models() if issubclass(model, TenantScoped)]
    assert {type(model.objects) for model in scoped} == {TenantManager}


def test_every_table_with_a_tenant_refuses_unscoped_reads() -> None:
    with_tenant = [
        model
        for model in apps.get_models()
        if any(f.name == "tenant" and isinstance(f, models.ForeignKey) for f in model._meta.fields)
    ]
    assert len(with_tenant) > 5
    for model in with_tenant:
        with pytest.raises(TenantRequiredError):
            model.objects.all()  # type: ignore[attr-defined]  # each has it


def test_principal_sees_rows_of_the_own_tenant_only(world: World) -> None:
    members = Membership.objects.of(world.alice.principal)
    assert set(members) == {world.alice.member, world.bob.member}
    keys = ApiKey.objects.of(world.charlie.principal)
    assert {key.member for key in keys} == {world.charlie.member}
