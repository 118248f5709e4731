"""OpenAPI by drf-spectacular: security schemes, the problem answer, routes of plain views.

Plain async views are described by `describe(path, method, operation)` next to their route.
"""

from __future__ import annotations

import inspect
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema as SpectacularSchema

from mcphub.api.errors import MEDIA_TYPE
from mcphub.api.problems import TYPE_PREFIX

Operation = dict[str, Any]

SECURITY: list[dict[str, list[str]]] = [{"bearer": []}, {"loginSession": []}]

_described: dict[str, dict[str, Operation]] = {}


def describe(path: str, method: str, operation: Operation) -> None:
    """Add one operation (an OpenAPI Operation Object) of a plain view to the document."""
    _described.setdefault(path, {})[method.lower()] = operation


class AutoSchema(SpectacularSchema):
    """Names operations by view and method, so that clients get stable function names."""

    def get_operation_id(self) -> str:
        name = self.view.__class__.__name__.removesuffix("View")
        return f"{self.method.lower()}{name}"

    def get_summary(self) -> str:
        """Return the first paragraph of the method's docstring."""
        return self._paragraphs()[0]

    def get_description(self) -> str:  # type: ignore[override]  # of spectacular, as it has it
        """Return the other paragraphs; a view's own docstring is about code."""
        return "\n\n".join(self._paragraphs()[1:])

    def _paragraphs(self) -> list[str]:
        text = inspect.getdoc(getattr(self.view, self.method.lower())) or ""
        return [" ".join(part.split()) for part in text.split("\n\n")]

    def get_tags(self) -> list[str]:
        return [self.path.removeprefix("/api/v1/").split("/")[0]]


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # of spectacular
    target_class = "tenants.api.authentication.BearerAuthentication"
    name = "bearer"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "An API key (`mhk_…`) or a connect session (`mhs_…`).",
        }


class LoginSessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # of spectacular
    target_class = "tenants.api.authentication.SessionAuthentication"
    name = "loginSession"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {
            "type": "apiKey",
            "in": "cookie",
            "name": "mcphub",
            "description": "The cookie of a login; writes need the CSRF token as `X-CSRFToken`.",
        }


def complete(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Post-process the document: described routes, the Problem schema, its answers everywhere."""
    paths = result.setdefault("paths", {})
    for path, operations in _described.items():
        paths.setdefault(path, {}).update(
            {method: _with_defaults(path, operation) for method, operation in operations.items()}
        )
    result["paths"] = {path: paths[path] for path in sorted(paths)}
    components = result.setdefault("components", {})
    components.setdefault("schemas", {})["Problem"] = problem_schema()
    components["responses"] = {
        "Problem": {
            "description": "What went wrong (RFC 9457); clients branch on `code`.",
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    }
    for operations in result["paths"].values():
        for operation in operations.values():
            operation.setdefault("responses", {}).setdefault(
                "default", {"$ref": "#/components/responses/Problem"}
            )
    return result


def _with_defaults(path: str, operation: Operation) -> Operation:
    tag = path.removeprefix("/api/v1/").split("/")[0]
    return {"tags": [tag], "security": SECURITY, **operation}


def problem_schema() -> dict[str, Any]:
    """Return the JSON Schema of a problem document."""
    text = {"type": "string"}
    return {
        "type": "object",
        "required": ["type", "title", "status", "detail", "instance", "code", "errors", "traceId"],
        "properties": {
            "type": {"type": "string", "format": "uri", "example": TYPE_PREFIX + "not_found"},
            "title": text,
            "status": {"type": "integer"},
            "detail": text,
            "instance": text,
            "code": {"type": "string", "description": "One of `GET /api/v1/problems`."},
            "errors": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["path", "message", "code"],
                    "properties": {"path": text, "message": text, "code": text},
                },
            },
            "traceId": text,
            "callId": {"type": "string", "description": "Of the call that ended so."},
            "callStatus": {
                "type": "string",
                "description": "How that call ended: with `outcome_unknown` it was sent and may "
                "have been executed, whatever `code` says (`timeout`, for example).",
            },
            "retryable": {"type": "boolean"},
            "retryAfter": {"type": "integer"},
            "rpc": {
                "type": "object",
                "description": "The server's own JSON-RPC error; its text is not the hub's.",
                "properties": {"code": {"type": "integer"}, "message": text, "data": {}},
            },
        },
        "additionalProperties": True,
    }
