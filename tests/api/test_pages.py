"""Cursor pages: newest first, without gaps, with cursors that cannot be made up."""

from __future__ import annotations

import pytest
from django.http import QueryDict
from django.test import Client

from mcphub.api.pagination import PageRequest, page_of
from mcphub.core.errors import InvalidInputError
from tenants.models import Membership
from tests import factories
from tests.problems import problem, wrong
from tests.world import World

MEMBERS = "/api/v1/members"


def test_walk_over_all_pages_sees_each_row_once_newest_first(world: World) -> None:
    for _ in range(7):
        factories.make_member(world.alice.tenant)
    rows = Membership.objects.of(world.alice.principal)
    seen: list[Membership] = []
    wanted = PageRequest(limit=2)
    for _ in range(5):
        page = page_of(rows, wanted)
        seen += page.items
        factories.make_member(world.alice.tenant)  # a newer row does not shift the pages
        wanted = (
            PageRequest.read(QueryDict(f"limit=2&cursor={page.next_cursor or ''}"))
            if (page.next_cursor)
            else wanted
        )
    assert page.next_cursor is None
    ids = [row.pk for row in seen]
    assert len(ids) == 9
    assert ids == sorted(ids, reverse=True)


@pytest.mark.parametrize("limit", ["0", "201", "-1", "x", "", "1.5", "٣", "9" * 30])
def test_limit_out_of_range_is_named(client: Client, world: World, limit: str) -> None:
    answer = client.get(f"{MEMBERS}?limit={limit}", headers=world.alice.headers)
    assert answer.status_code == 422
    assert answer.json() == problem(
        "invalid_input", MEMBERS, errors=[wrong("/limit", "A whole number from 1 to 200.")]
    )


@pytest.mark.parametrize("cursor", ["", "x", "00000000000000000000000000000000.sig"])
def test_cursor_of_somebody_elses_making_is_refused(
    client: Client, world: World, cursor: str
) -> None:
    answer = client.get(f"{MEMBERS}?cursor={cursor}", headers=world.alice.headers)
    assert answer.json() == problem(
        "invalid_input",
        MEMBERS,
        errors=[wrong("/cursor", "Not a cursor that this service gave out.")],
    )


def test_largest_page_is_200() -> None:
    assert PageRequest.read(QueryDict("limit=200")).limit == 200
    with pytest.raises(InvalidInputError):
        PageRequest.read(QueryDict("limit=201"))
