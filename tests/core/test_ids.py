"""Public identifiers and deadlines."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.core import clock, ids


def test_a_uuid_is_version_7_and_carries_the_time() -> None:
    before = time.time_ns() // 1_000_000
    value = ids.new_uuid()
    assert (value.version, value.variant) == (7, "specified in RFC 4122")
    assert before <= value.int >> 80 <= time.time_ns() // 1_000_000


def test_uuids_made_one_after_the_other_sort_in_that_order() -> None:
    made = [ids.new_uuid() for _ in range(1000)]
    assert made == sorted(made)


def test_uuids_and_secrets_do_not_repeat() -> None:
    assert len({ids.new_uuid() for _ in range(1000)}) == 1000
    assert len({ids.new_secret() for _ in range(1000)}) == 1000


def test_a_secret_has_256_bits_and_no_separators() -> None:
    assert len(bytes.fromhex(ids.new_secret())) == 32


@pytest.mark.parametrize("text", ["a", "time", "my-server_2", "a" * 24])
def test_a_slug_is_lower_case_words(text: str) -> None:
    assert ids.is_slug(text)


@pytest.mark.parametrize(
    "text", ["", "1a", "-a", "a-", "a__b", "a--b", "A", "a b", "a\n", "é", "a" * 25, "a.b"]
)
def test_anything_else_is_no_slug(text: str) -> None:
    assert not ids.is_slug(text)


@given(st.text(max_size=80))
def test_every_text_yields_a_slug(text: str) -> None:
    assert ids.is_slug(ids.slug_from(text))


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("My Server!", "my-server"),
        ("3 Minds", "s-3-minds"),
        ("日本", "server"),
        ("a" * 30, "a" * 24),
        ("abcdefghijklmnopqrstuvw xyz", "abcdefghijklmnopqrstuvw"),
    ],
)
def test_a_slug_keeps_what_is_readable(text: str, slug: str) -> None:
    assert ids.slug_from(text) == slug


def test_now_knows_its_time_zone() -> None:
    assert clock.now().utcoffset() is not None


def test_a_deadline_counts_down_to_zero() -> None:
    assert not clock.Deadline.after(60).is_over
    assert 59 < clock.Deadline.after(60).remaining <= 60
    past = clock.Deadline.after(-1)
    assert (past.is_over, past.remaining) == (True, 0.0)
