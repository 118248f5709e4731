"""The rule tables of the providers, with their sources.

One bad name or schema makes a provider answer 400 to the whole model request, so a profile is the
intersection of what its provider was seen to accept.

Sources. OpenAI: names `^[a-zA-Z0-9_-]+$` of at most 64 (mastra #6302, cline PR #11885, ailoy #109),
the root is a plain object. Anthropic: names `^[a-zA-Z0-9_-]{1,128}$` (copilot-cli #1879), older
clients 64 (claude-code #2412, #19882); no oneOf/allOf/anyOf at the root (claude-code #5319,
opencode #35516). Gemini: a letter or `_` first; `parametersJsonSchema` takes JSON Schema; the older
`parameters` is an OpenAPI 3.0 subset and refuses every other keyword (pizza-bot #62, promptfoo
#6902, goai #108).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

PUBLIC_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""What every consumer takes (API design §8, "Rules of ours")."""

MAX_SCHEMA_BYTES = 256 << 10
MAX_SCHEMA_DEPTH = 64
MAX_SUBSCHEMAS = 2000
MAX_REPEATS = 3
"""How often a cyclic `$ref` is unrolled before it becomes {} (anything)."""

ROOT_UNIONS = ("oneOf", "anyOf", "allOf")

OPENAPI_KEYWORDS = frozenset(
    {
        "anyOf",
        "default",
        "description",
        "enum",
        "example",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "nullable",
        "pattern",
        "properties",
        "propertyOrdering",
        "required",
        "title",
        "type",
    }
)
OPENAPI_FORMATS = {
    "string": frozenset({"date-time", "enum"}),
    "number": frozenset({"float", "double"}),
    "integer": frozenset({"int32", "int64"}),
}


class Format(StrEnum):
    """Values of `?format=`."""

    MCP = "mcp"
    OPENAI = "openai"
    OPENAI_RESPONSES = "openai-responses"
    ANTHROPIC = "anthropic"
    GEMINI = "gemini"
    GEMINI_OPENAPI = "gemini-openapi"
    JSON_SCHEMA = "json-schema"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What one format asks of a schema; False everywhere: relayed untouched."""

    needs_plain_root: bool = False
    """The root is `type: object` without a union."""
    needs_bounded_refs: bool = False
    """Remote references become {}, cyclic ones are unrolled."""
    is_openapi: bool = False
    """Only OPENAPI_KEYWORDS, no references at all."""


UNTOUCHED = Profile()
JSON_SCHEMA = Profile(needs_plain_root=True, needs_bounded_refs=True)

PROFILES: dict[Format, Profile] = {
    Format.MCP: UNTOUCHED,
    Format.JSON_SCHEMA: UNTOUCHED,
    Format.OPENAI: JSON_SCHEMA,
    Format.OPENAI_RESPONSES: JSON_SCHEMA,
    Format.ANTHROPIC: JSON_SCHEMA,
    Format.GEMINI: JSON_SCHEMA,
    Format.GEMINI_OPENAPI: Profile(needs_plain_root=True, needs_bounded_refs=True, is_openapi=True),
}
