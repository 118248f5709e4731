"""Every row of the failure log is a test: its id is in the name or text of one.

A row is a behaviour of servers that was reported somewhere, and what the hub does then. In a name
the id is written small (`test_e12_…`), in a docstring or the id of a parameter as it is (E12).
"""

from __future__ import annotations

import re

from tests.house.sources import sources

OWN = "tests/house/test_failure_rows.py"

ROWS: dict[str, str] = {
    "A": "01 02 03 04 05 07 08 09 10 12 13 14 15 16 18 20 21 22",
    "B": "01 02 03 05 06 07 10 11 12 13",
    "C": "01 03 04 05 06 07 08 09 10 11 13 15 16 17 18 19 20",
    "D": "01 03 05 06 07 08",
    "E": "01 02 03 04 05 06 07 09 10 11 12 13 14 15 16 17 18 19 20 21 22 23 26 27 28 29 31 32 33"
    " 34 35 36 37",
    "F": "01 02 04 05 07 08 09 10 11 12 13 15 16 17 18 19",
    "G": "01 02 04 05 06 07 08 09 10 11 12",
}
"""Discovery; clients; tokens; scopes; transports and sessions; lists and results; isolation."""

IN_NAME = re.compile(r"def test_\w*")
IN_TEXT = re.compile(r"\b[A-G]\d\d\b")


def named() -> set[str]:
    found: set[str] = set()
    for source in sources():
        if source.path.startswith("tests/") and "/test_" in source.path and source.path != OWN:
            found.update(IN_TEXT.findall(source.text))
            for name in IN_NAME.findall(source.text):
                found.update(part.upper() for part in name.split("_"))
    return found


def test_every_row_of_the_failure_log_is_named_by_a_test() -> None:
    rows = {f"{group}{number}" for group, numbers in ROWS.items() for number in numbers.split()}
    assert sorted(rows - named()) == []
