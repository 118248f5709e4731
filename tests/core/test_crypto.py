"""Sealed values open for their owner and key ring only; keys never appear in errors."""

from __future__ import annotations

import base64

import pytest
from django.core.exceptions import ImproperlyConfigured
from hypothesis import given
from hypothesis import strategies as st
from pytest_django.fixtures import Settings

from mcphub.core import keys
from mcphub.core.crypto import CredentialUnreadableError, KeyRing, Secret

OLD, NEW = KeyRing.new_key("old"), KeyRing.new_key("new")


@given(st.binary(max_size=5000), st.text(max_size=80))
def test_a_sealed_value_opens_for_its_owner(plain: bytes, owner: str) -> None:
    ring = KeyRing.parse(OLD)
    assert ring.unseal(ring.seal(plain, owner=owner), owner=owner) == plain


def test_the_same_value_is_sealed_differently_each_time() -> None:
    ring = KeyRing.parse(OLD)
    assert ring.seal(b"x", owner="a") != ring.seal(b"x", owner="a")


def test_a_value_moved_to_another_row_does_not_open() -> None:
    ring = KeyRing.parse(OLD)
    sealed = ring.seal(b"x", owner="grant:7:access_token")
    with pytest.raises(CredentialUnreadableError):
        ring.unseal(sealed, owner="grant:8:access_token")


@pytest.mark.parametrize("place", [0, 3, 4, 15, 16, -1])
def test_a_damaged_value_does_not_open(place: int) -> None:
    ring = KeyRing.parse(OLD)
    sealed = bytearray(ring.seal(b"secret", owner="a"))
    sealed[place] ^= 1
    with pytest.raises(CredentialUnreadableError):
        ring.unseal(bytes(sealed), owner="a")


@pytest.mark.parametrize("sealed", [b"", b"old", b"old:", b"old:short", b"\xff\x00:x", b":x"])
def test_what_was_never_sealed_does_not_open(sealed: bytes) -> None:
    with pytest.raises(CredentialUnreadableError):
        KeyRing.parse(OLD).unseal(sealed, owner="a")


def test_every_key_of_the_ring_opens_and_the_first_seals() -> None:
    before = KeyRing.parse(OLD).seal(b"x", owner="a")
    ring = KeyRing.parse(f" {NEW} , {OLD} ,")
    assert ring.unseal(memoryview(before), owner="a") == b"x"  # type: ignore[arg-type]  # psycopg's type
    assert ring.seal(b"x", owner="a").startswith(b"new:")


def test_resealing_moves_a_value_to_the_first_key_once() -> None:
    before = KeyRing.parse(OLD).seal(b"x", owner="a")
    ring = KeyRing.parse(f"{NEW},{OLD}")
    after = ring.reseal(before, owner="a")
    assert after is not None
    assert KeyRing.parse(NEW).unseal(after, owner="a") == b"x"
    assert ring.reseal(after, owner="a") is None


def test_a_value_of_a_removed_key_names_the_key_that_is_missing() -> None:
    before = KeyRing.parse(OLD).seal(b"x", owner="a")
    with pytest.raises(CredentialUnreadableError) as caught:
        KeyRing.parse(NEW).unseal(before, owner="a")
    assert "'old'" in caught.value.detail


SECRET = base64.b64encode(bytes(range(32))).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        " , ",
        SECRET,
        f":{SECRET}",
        f"a b:{SECRET}",
        f"{'k' * 41}:{SECRET}",
        f"k:{SECRET[:-4]}",
        f"k:{SECRET}AAAA",
        f"k:*{SECRET}",
        f"k:{SECRET},k:{SECRET}",
        "k:",
    ],
)
def test_a_bad_key_ring_is_refused_without_telling_the_key(text: str) -> None:
    with pytest.raises(ValueError, match="key") as caught:
        KeyRing.parse(text)
    assert SECRET[:8] not in str(caught.value)


def test_both_alphabets_of_base64_are_read() -> None:
    key = b"\xfb\xff" * 16
    standard = KeyRing.parse(f"k:{base64.b64encode(key).decode()}")
    urlsafe = KeyRing.parse(f"k:{base64.urlsafe_b64encode(key).decode().rstrip('=')}")
    assert urlsafe.unseal(standard.seal(b"x", owner="a"), owner="a") == b"x"


@pytest.mark.parametrize("ring", [{}, {"k": b"short"}, {"a:b": bytes(32)}])
def test_a_ring_needs_whole_keys_with_plain_names(ring: dict[str, bytes]) -> None:
    with pytest.raises(ValueError, match="key"):
        KeyRing(ring)


def test_a_secret_hides_its_value_from_representations() -> None:
    secret = Secret("hush")
    assert "hush" not in f"{secret} {secret!r} {[secret]}"
    assert secret.value == "hush"


def test_the_process_reads_its_key_ring_once_and_says_what_is_wrong(settings: Settings) -> None:
    keys.key_ring.cache_clear()
    settings.MCPHUB_KEYS = ""
    with pytest.raises(ImproperlyConfigured, match="MCPHUB_KEYS"):
        keys.key_ring()
    settings.MCPHUB_KEYS = OLD
    assert keys.key_ring() is keys.key_ring()
    keys.key_ring.cache_clear()
