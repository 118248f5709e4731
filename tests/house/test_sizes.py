"""Sizes of STYLE.md: files of at most 400 lines, functions of at most 50, without exceptions."""

from __future__ import annotations

import ast

from tests.house.sources import sources

FILE_LINES = 400
FUNCTION_LINES = 50


def test_no_file_is_longer_than_400_lines() -> None:
    long = {s.path: s.text.count("\n") for s in sources() if s.text.count("\n") > FILE_LINES}
    assert long == {}


def test_no_function_is_longer_than_50_lines() -> None:
    long = {
        f"{source.path}:{node.lineno} {node.name}": node.end_lineno - node.lineno + 1
        for source in sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > FUNCTION_LINES
    }
    assert long == {}


def test_every_module_says_in_one_sentence_what_it_is_for() -> None:
    silent = [s.path for s in sources() if s.text.strip() and not ast.get_docstring(s.tree)]
    assert silent == []
