"""The envelope of results in each era."""

from __future__ import annotations

import pytest

from connectors.server_spec import Era
from gateway.eras import result_for
from mcphub.core.types import JSONObject

LISTED: JSONObject = {"tools": [], "vendor": 1}
MODERN: JSONObject = {**LISTED, "resultType": "complete", "ttlMs": 5000, "cacheScope": "public"}


def test_a_modern_client_gets_the_whole_envelope_and_never_a_shared_cache() -> None:
    expected = {**MODERN, "cacheScope": "private"}
    assert result_for(Era.MODERN, "tools/list", MODERN) == expected
    assert result_for(Era.MODERN, "tools/list", LISTED) == {**expected, "ttlMs": 0}


def test_a_result_that_nobody_caches_gets_its_type_only() -> None:
    called: JSONObject = {"content": [], "ttlMs": 3}
    assert result_for(Era.MODERN, "tools/call", called) == {**called, "resultType": "complete"}


@pytest.mark.parametrize(
    ("method", "sent"),
    [
        ("tools/call", {"resultType": "task", "taskId": "1", "ttlMs": 7}),
        ("resources/read", {"resultType": "input_required", "requestState": "s"}),
    ],
)
def test_other_result_types_are_kept_as_they_are(method: str, sent: JSONObject) -> None:
    assert result_for(Era.MODERN, method, sent) == sent


def test_an_older_client_gets_no_envelope_of_a_later_era() -> None:
    assert result_for(Era.LEGACY, "tools/list", MODERN) == LISTED
    task: JSONObject = {"resultType": "complete", "taskId": "1", "ttlMs": 7}
    assert result_for(Era.LEGACY, "tasks/get", task) == {"taskId": "1", "ttlMs": 7}


@pytest.mark.parametrize("ttl", [True, -1, "5", None])
def test_an_unusable_ttl_means_stale_at_once(ttl: bool | int | str | None) -> None:
    assert result_for(Era.MODERN, "tools/list", {"tools": [], "ttlMs": ttl})["ttlMs"] == 0
