"""Every problem code that the service can answer is in the registry, which has no other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from mcphub.api.problems import PROBLEMS
from tests.house.sources import Source, service_sources

REGISTRY = "mcphub/api/problems.py"
OTHER_CODES = {"ValidationError", "FieldProblem", "CommandError"}
"""Things with a `code` that is not the code of a problem document."""


@dataclass(frozen=True, slots=True)
class ErrorClass:
    name: str
    code: object
    status: object
    title: object


def codes_given_in(source: Source) -> Iterator[str]:
    """Return codes that are written where a HubError or an outcome is made."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).rpartition(".")[2]
        is_error = name.endswith("Error") and name not in OTHER_CODES
        for keyword in node.keywords:
            is_code = keyword.arg == "problem_code" or (is_error and keyword.arg == "code")
            if is_code and isinstance(keyword.value, ast.Constant):
                yield str(keyword.value.value)


def error_classes() -> Iterator[ErrorClass]:
    """Return the classes of the tree that bring a code of their own."""
    for source in service_sources():
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.ClassDef) or not node.name.endswith("Error"):
                continue
            values = dict(_constants(node))
            if "code" in values:
                yield ErrorClass(
                    node.name, values["code"], values.get("status"), values.get("title")
                )


def _constants(node: ast.ClassDef) -> Iterator[tuple[str, object]]:
    for line in node.body:
        target = line.targets[0] if isinstance(line, ast.Assign) else None
        target = line.target if isinstance(line, ast.AnnAssign) else target
        value = getattr(line, "value", None)
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant):
            yield target.id, value.value


def test_every_code_that_is_given_is_registered() -> None:
    unknown = {
        f"{code} in {source.path}"
        for source in service_sources()
        for code in codes_given_in(source)
        if code and code not in PROBLEMS
    }
    assert unknown == set()


def test_every_error_class_is_registered_with_its_status() -> None:
    found = list(error_classes())
    wrong = [
        kind
        for kind in found
        if kind.code not in PROBLEMS or kind.status not in {None, PROBLEMS[str(kind.code)].status}
    ]
    assert len(found) > 20
    assert wrong == []


def test_every_error_class_has_the_title_of_the_registry() -> None:
    others = {
        kind.name: kind.title
        for kind in error_classes()
        if kind.title is not None and kind.title != PROBLEMS[str(kind.code)].title
    }
    assert others == {}


def test_every_registered_code_is_used() -> None:
    constants = {
        node.value
        for source in service_sources()
        if source.path != REGISTRY
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert set(PROBLEMS) - constants == set()
