"""Public names of prompts and public ids of tasks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from connectors.names import is_public
from gateway.projection.names import PromptOrigin, prompt_table, public_prompt_name
from gateway.projection.tasks import TaskOrigin, public_task_id, task_origin
from tests.gateway.projection.strategies import slugs

catalogs = st.dictionaries(slugs, st.sets(st.text(), max_size=5), max_size=4)


@given(catalogs)
def test_every_prompt_has_a_name_of_its_own_that_leads_back(
    catalog: dict[str, set[str]],
) -> None:
    table = prompt_table(catalog.items())
    assert {(origin.server, origin.name) for origin in table.values()} == {
        (server, name) for server, names in catalog.items() for name in names
    }
    assert all(is_public(public) for public in table)


@given(catalogs, slugs, st.text())
def test_a_prompt_keeps_its_name_whatever_else_is_there(
    catalog: dict[str, set[str]], server: str, name: str
) -> None:
    catalog.setdefault(server, set()).add(name)
    table = prompt_table(catalog.items())
    assert table[public_prompt_name(server, name)] == PromptOrigin(server, name)


def test_a_usable_prompt_name_is_only_prefixed() -> None:
    assert public_prompt_name("docs", "summarize") == "docs__summarize"


@given(slugs, st.text(min_size=1))
def test_a_public_task_id_leads_back_to_its_server(server: str, task_id: str) -> None:
    assert task_origin(public_task_id(server, task_id)) == TaskOrigin(server, task_id)


def test_a_task_id_that_the_hub_never_showed_leads_nowhere() -> None:
    assert [task_origin(text) for text in ("", "task-1", "Docs:1", ":1", "docs:")] == [None] * 5
