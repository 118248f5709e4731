"""Arguments against a stranger's schema: right answers, hostile schemas, and no harm done."""

from __future__ import annotations

import asyncio
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.argument_check import ArgumentChecker, CheckResult, Reason
from connectors.argument_check import checker as checker_module
from connectors.argument_check.process import ROOT, Child, ChildLostError
from connectors.argument_check.rules import plain_weight
from mcphub.core.errors import FieldProblem
from mcphub.core.types import JSONObject, JSONValue
from tests.core.raw_server import raw_server

BOMB: JSONObject = {"properties": {"text": {"type": "string", "pattern": "^(a+)+$"}}}
FUSE: JSONObject = {"text": "a" * 40 + "!"}
PLAIN: JSONObject = {
    "type": "object",
    "properties": {
        "limit": {"type": "integer", "minimum": 1, "maximum": 10},
        "order": {"enum": ["up", "down"]},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 2},
    },
    "required": ["limit"],
    "additionalProperties": False,
}
COSTLY: JSONObject = {**PLAIN, "$defs": {"unused": {"pattern": "x"}}}
OK = CheckResult(is_checked=True)
only_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads what only Linux shows")


@pytest.fixture(scope="module")
def checker() -> Iterator[ArgumentChecker]:
    checker = ArgumentChecker()
    yield checker
    checker.close()


def nested(depth: int) -> JSONObject:
    schema: JSONObject = {"type": "object"}
    for _ in range(depth):
        schema = {"properties": {"a": schema}}
    return schema


def test_the_two_ways_of_checking_are_chosen_by_what_a_schema_may_cost() -> None:
    assert plain_weight(PLAIN) > 0
    assert plain_weight(COSTLY) == 0


@pytest.mark.parametrize("schema", [PLAIN, COSTLY])
async def test_right_arguments_have_no_problems(
    checker: ArgumentChecker, schema: JSONObject
) -> None:
    arguments: JSONObject = {"limit": 3, "order": "up", "note": None, "tags": ["a"]}
    assert await checker.check(schema, arguments) == OK


@pytest.mark.parametrize("schema", [PLAIN, COSTLY])
async def test_every_wrong_value_is_named_by_its_pointer(
    checker: ArgumentChecker, schema: JSONObject
) -> None:
    arguments: JSONObject = {"order": "x", "note": 1, "tags": ["abcd", 2], "a/b~c": 1}
    result = await checker.check(schema, arguments)
    assert result.is_checked
    assert sorted(result.problems, key=lambda problem: problem.path) == [
        FieldProblem(path="/arguments/a~1b~0c", message="is not a known field", code="unexpected"),
        FieldProblem(path="/arguments/limit", message="is required", code="required"),
        FieldProblem(
            path="/arguments/note", message="is not of type string or null", code="wrong_type"
        ),
        FieldProblem(
            path="/arguments/order", message="is not one of the allowed values", code="not_allowed"
        ),
        FieldProblem(
            path="/arguments/tags/0", message="is longer than 3 characters", code="invalid"
        ),
        FieldProblem(path="/arguments/tags/1", message="is not of type string", code="wrong_type"),
    ]


@pytest.mark.parametrize("schema", [PLAIN, COSTLY])
@pytest.mark.parametrize("arguments", [None, [], "text", 5])
async def test_arguments_that_are_no_object_are_told_so(
    checker: ArgumentChecker, schema: JSONObject, arguments: JSONValue
) -> None:
    result = await checker.check(schema, arguments)
    assert result.problems == [
        FieldProblem(path="/arguments", message="is not of type object", code="wrong_type")
    ]


def test_the_blocking_form_answers_the_same(checker: ArgumentChecker) -> None:
    for schema in (PLAIN, COSTLY):
        assert checker.check_blocking(schema, {"limit": 3}) == OK


async def test_problems_are_bounded_and_never_quote_a_value(checker: ArgumentChecker) -> None:
    schema: JSONObject = {"items": {"pattern": "secret-schema"}}
    result = await checker.check(schema, [f"secret-{number}" for number in range(100)])
    assert len(result.problems) == 20
    assert not any("secret" in problem.message for problem in result.problems)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"$ref": "http://127.0.0.1:9/x"}, Reason.REFERENCE),
        ({"$ref": "file:///etc/passwd"}, Reason.REFERENCE),
        ({"$ref": "#/$defs/missing"}, Reason.REFERENCE),
        ({"$ref": "#"}, Reason.TOO_DEEP),
        ({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, Reason.TOO_DEEP),
        (nested(70), Reason.TOO_DEEP),
        ({"allOf": [{} for _ in range(2001)]}, Reason.TOO_LARGE),
        ({"description": "x" * (257 << 10)}, Reason.TOO_LARGE),
        ({"type": "strin"}, Reason.UNUSABLE),
        ({"properties": []}, Reason.UNUSABLE),
        ({"pattern": "("}, Reason.UNUSABLE),
        ({"$schema": "http://strange.test/schema"}, Reason.DIALECT),
        ({"$schema": 5}, Reason.DIALECT),
        ("text", Reason.UNUSABLE),
        (None, Reason.UNUSABLE),
    ],
)
async def test_a_schema_that_cannot_be_used_leaves_the_arguments_unchecked(
    checker: ArgumentChecker, schema: JSONValue, reason: Reason
) -> None:
    assert await checker.check(schema, "x") == CheckResult(is_checked=False, reason=reason)


async def test_a_schema_too_deep_to_write_leaves_the_arguments_unchecked(
    checker: ArgumentChecker,
) -> None:
    result = await checker.check(nested(100_000), {})
    assert result == CheckResult(is_checked=False, reason=Reason.TOO_DEEP)


async def test_a_remote_reference_is_never_fetched(checker: ArgumentChecker) -> None:
    async with raw_server() as canary:
        for keyword in ("$ref", "$dynamicRef", "$schema"):
            await checker.check({keyword: canary.url}, {})
            await checker.check({"properties": {"a": {keyword: canary.url}}}, {"a": 1})
    assert canary.connections == 0


@pytest.mark.parametrize(
    ("schema", "wrong"),
    [
        ({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "null"}]}, [1]),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "maximum": 3}, 4),
        ({"$schema": "https://json-schema.org/draft/2019-09/schema", "minItems": 1}, []),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "const": 1}, 2),
        ({"prefixItems": [{"type": "null"}]}, [1]),
        (False, {}),
    ],
)
async def test_the_dialect_of_the_schema_is_respected(
    checker: ArgumentChecker, schema: JSONValue, wrong: JSONValue
) -> None:
    result = await checker.check(schema, wrong)
    assert result.is_checked
    assert len(result.problems) == 1


async def test_a_regex_bomb_ends_within_a_second_while_the_loop_stays_free() -> None:
    checker = ArgumentChecker()
    stalls: list[float] = []
    task = asyncio.create_task(checker.check(BOMB, FUSE))
    while not task.done():
        began = time.monotonic()
        await asyncio.wait([task], timeout=0.01)
        stalls.append(time.monotonic() - began)
    assert task.result() == CheckResult(is_checked=False, reason=Reason.TOO_SLOW)
    assert len(stalls) >= 5
    checker.close()


async def test_after_a_bomb_other_schemas_are_checked_and_the_bomb_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checker = ArgumentChecker(children=1)
    await checker.check(BOMB, FUSE)
    assert await checker.check(COSTLY, {"limit": 3}) == OK
    monkeypatch.setattr(checker_module, "Child", no_child)
    again = await checker.check(BOMB, {"text": "a"})
    assert again == CheckResult(is_checked=False, reason=Reason.TOO_SLOW)
    checker.close()


def no_child() -> Child:
    raise AssertionError("a child was started")


async def test_arguments_too_deep_to_write_are_left_unchecked(checker: ArgumentChecker) -> None:
    result = await checker.check(COSTLY, nested(100_000))
    assert result == CheckResult(is_checked=False, reason=Reason.TOO_DEEP)


async def test_a_system_without_processes_leaves_arguments_unchecked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> Child:
        raise BlockingIOError

    monkeypatch.setattr(checker_module, "Child", refuse)
    checker = ArgumentChecker()
    result = await checker.check(COSTLY, {})
    assert result == CheckResult(is_checked=False, reason=Reason.BUSY)
    checker.close()


async def test_old_schemas_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checker_module, "KEPT_PLANS", 1)
    checker = ArgumentChecker()
    assert await checker.check({"minimum": 1}, 1, digest="a") == OK
    assert await checker.check({"minimum": 3}, 3, digest="b") == OK
    assert (await checker.check({"minimum": 2}, 1, digest="a")).problems != []
    checker.close()


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ({"patternProperties": {"^x": {}}, "additionalProperties": False}, {"y": 1}),
        ({"anyOf": [{"minimum": 5}, {"type": "string"}]}, 1),
        ({"oneOf": [{}, {}]}, 1),
        ({"not": {}}, 1),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}),
    ],
)
async def test_other_violations_are_told_at_the_value_they_concern(
    checker: ArgumentChecker, schema: JSONObject, arguments: JSONValue
) -> None:
    result = await checker.check(schema, arguments)
    assert [(problem.path, problem.code) for problem in result.problems] == [
        ("/arguments", "invalid")
    ]


def test_the_process_has_one_checker() -> None:
    assert checker_module.shared_checker() is checker_module.shared_checker()


async def test_a_harmless_schema_needs_no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checker_module, "Child", no_child)
    checker = ArgumentChecker()
    assert await checker.check(PLAIN, {"limit": 3}) == OK
    checker.close()


async def test_large_arguments_are_not_checked_in_the_services_own_process(
    checker: ArgumentChecker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checker_module, "problems_of", None)
    schema: JSONObject = {"items": {"anyOf": [{"type": "null"}, {"type": "integer"}]}}
    assert await checker.check(schema, [1] * 6_000) == OK


async def test_a_child_that_forgot_a_schema_is_told_it_again(
    checker: ArgumentChecker,
) -> None:
    for number in range(600):
        schema: JSONObject = {"pattern": f"^{number}$"}
        assert await checker.check(schema, str(number)) == OK
    assert (await checker.check({"pattern": "^0$"}, "1")).problems != []


async def test_the_digest_that_the_caller_knows_stands_for_the_schema(
    checker: ArgumentChecker,
) -> None:
    assert await checker.check(COSTLY, {"limit": 1}, digest="d1") == OK
    assert (await checker.check(COSTLY, {}, digest="d1")).problems != []


async def test_checks_beyond_the_queue_are_let_through_unchecked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checker_module, "WAITING_MAX", 0)
    checker = ArgumentChecker()
    result = await checker.check(COSTLY, {})
    assert result == CheckResult(is_checked=False, reason=Reason.BUSY)
    checker.close()


def test_many_threads_and_loops_share_one_checker(checker: ArgumentChecker) -> None:
    results: list[CheckResult] = []

    def work() -> None:
        results.append(asyncio.run(checker.check(COSTLY, {"limit": 3})))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [OK] * 8


def test_a_silent_child_is_killed() -> None:
    child = Child()
    with pytest.raises(ChildLostError):
        child.ask(b"", 0.05)
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


@only_linux
def test_a_child_ends_with_its_parent() -> None:
    script = (
        "import os\n"
        "from connectors.argument_check.process import Child\n"
        "print(Child().pid, flush=True)\n"
        "os._exit(1)\n"
    )
    parent = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, check=False, capture_output=True, timeout=20
    )
    assert is_gone_within(int(parent.stdout), seconds=10.0)


def is_gone_within(pid: int, *, seconds: float) -> bool:
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    ended, _, _ = select.select([watched], [], [], seconds)
    os.close(watched)
    return bool(ended)


@only_linux
def test_a_child_sees_nothing_of_the_hubs_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPHUB_KEYS", "k:secret")
    child = Child()
    assert b"secret" not in Path(f"/proc/{child.pid}/environ").read_bytes()
    child.kill()
