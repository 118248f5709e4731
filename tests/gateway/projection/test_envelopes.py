"""Era envelopes of results, for all four pairs."""

from __future__ import annotations

import pytest

from connectors.server_spec import Era
from gateway.projection.envelopes import to_client
from mcphub.core.types import JSONObject

LISTED: JSONObject = {"tools": [], "vendor": 1}
MODERN: JSONObject = {**LISTED, "resultType": "complete", "ttlMs": 5000, "cacheScope": "public"}


@pytest.mark.parametrize("upstream", list(Era))
def test_a_modern_client_gets_the_whole_envelope_and_never_a_shared_cache(upstream: Era) -> None:
    sent = MODERN if upstream is Era.MODERN else LISTED
    expected = {
        **LISTED,
        "resultType": "complete",
        "ttlMs": 5000 if upstream is Era.MODERN else 0,
        "cacheScope": "private",
    }
    assert to_client("tools/list", sent, upstream=upstream, client=Era.MODERN) == expected


def test_a_result_that_nobody_caches_gets_its_type_only() -> None:
    shown = to_client("tools/call", {"content": []}, upstream=Era.LEGACY, client=Era.MODERN)
    assert shown == {"content": [], "resultType": "complete"}


def test_other_result_types_are_kept() -> None:
    sent: JSONObject = {"resultType": "task", "taskId": "1", "ttlMs": 7}
    assert to_client("tools/call", sent, upstream=Era.MODERN, client=Era.MODERN) == sent


def test_an_older_client_gets_no_envelope_of_a_later_era() -> None:
    assert to_client("tools/list", MODERN, upstream=Era.MODERN, client=Era.LEGACY) == LISTED
    task: JSONObject = {"resultType": "complete", "taskId": "1", "ttlMs": 7}
    assert to_client("tasks/get", task, upstream=Era.MODERN, client=Era.LEGACY) == {
        "taskId": "1",
        "ttlMs": 7,
    }


def test_nothing_changes_between_two_of_the_handshake_era() -> None:
    assert to_client("tools/list", MODERN, upstream=Era.LEGACY, client=Era.LEGACY) is MODERN


@pytest.mark.parametrize("ttl", [True, -1, "5", None])
def test_an_unusable_ttl_means_at_once_stale(ttl: object) -> None:
    sent = {"tools": [], "ttlMs": ttl}
    shown = to_client("tools/list", sent, upstream=Era.MODERN, client=Era.MODERN)  # type: ignore[arg-type]  # untrusted
    assert shown["ttlMs"] == 0
