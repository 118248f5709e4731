"""Public names of prompts on the aggregate endpoint.

Tools have a stored table (`CatalogTool.public_name`), since models and users quote their names for
a long time. The name of a prompt depends on the server's id and its own name alone, so it needs no
row, and never moves when the catalog changes; the way back is a table made of the catalog, never a
split of the string.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from connectors.names import LONGEST, is_altered, plain_form

HASH_LENGTH = 16


@dataclass(frozen=True, slots=True)
class PromptOrigin:
    server: str
    name: str


def public_prompt_name(server: str, name: str) -> str:
    """Return `server__name`; with a hash of the name at its end where that had to be changed."""
    plain = plain_form(server, name)
    if not is_altered(server, name):
        return plain
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_LENGTH]
    stem = plain[: LONGEST - HASH_LENGTH - 1].rstrip("_-")
    return f"{stem}_{digest}"


def prompt_table(catalog: Iterable[tuple[str, Iterable[str]]]) -> Mapping[str, PromptOrigin]:
    """Return the way back from every public prompt name of `(server, names)` pairs."""
    return {
        public_prompt_name(server, name): PromptOrigin(server, name)
        for server, names in catalog
        for name in names
    }
