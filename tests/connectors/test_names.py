"""Public names: valid, unique, stable and independent of order."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors import names
from mcphub.core import ids

slugs = st.from_regex(r"\A[a-z][a-z0-9]{0,11}(?:[_-][a-z0-9]{1,10})?\Z").filter(ids.is_slug)
tool_names = st.one_of(
    st.text(min_size=1, max_size=120),
    st.text(alphabet="ab._/ -", min_size=1, max_size=80),
)
listings = st.lists(tool_names, max_size=30, unique=True)


@given(slugs, listings)
def test_every_public_name_is_valid_and_unique(slug: str, listing: list[str]) -> None:
    """F15, F18."""
    chosen = names.assign(slug, listing, {})
    assert set(chosen) == set(listing)
    assert len(set(chosen.values())) == len(listing)
    assert all(names.is_public(public) for public in chosen.values())


@given(slugs, listings, st.randoms(use_true_random=False))
def test_the_order_of_a_listing_does_not_matter(
    slug: str, listing: list[str], order: random.Random
) -> None:
    shuffled = order.sample(listing, len(listing))
    assert names.assign(slug, shuffled, {}) == names.assign(slug, listing, {})


@given(slugs, listings, listings)
def test_a_stored_name_never_changes(slug: str, before: list[str], added: list[str]) -> None:
    stored = names.assign(slug, before, {})
    later = names.assign(slug, [*before, *added], stored)
    assert {name: later[name] for name in before} == stored
    assert len(set(later.values())) == len(later)


@given(slugs, slugs, tool_names, tool_names)
def test_two_servers_never_share_a_public_name(
    one: str, other: str, first: str, second: str
) -> None:
    shared = set(names.assign(one, [first], {}).values()) & set(
        names.assign(other, [second], {}).values()
    )
    assert not shared or one == other


@pytest.mark.parametrize(
    ("listing", "expected"),
    [
        (["search"], {"search": "linear__search"}),
        (["repo.search"], {"repo.search": "linear__repo_search"}),
        (["Weird name/with slash"], {"Weird name/with slash": "linear__Weird_name_with_slash"}),
        (
            ["a.b", "a_b"],
            {"a_b": "linear__a_b", "a.b": "linear__a_b_2e7336dc"},
        ),
        (
            ["a.b", "a/b"],
            {"a/b": "linear__a_b_c14cddc0", "a.b": "linear__a_b_2e7336dc"},
        ),
        (["x" * 80], {"x" * 80: "linear__" + "x" * 56}),
    ],
)
def test_a_public_name_looks_like_its_upstream_name(
    listing: list[str], expected: dict[str, str]
) -> None:
    assert names.assign("linear", listing, {}) == expected
