"""What a client asks for, as its server knows it: the way back from public URIs and task ids.

Names of tools and prompts lead back by tables of the catalog; see `names` and `CatalogTool`.
"""

from __future__ import annotations

from dataclasses import dataclass

from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    PROTOCOL_VERSION_META_KEY,
)

from gateway.projection.results import RELATED_TASK_META_KEY
from gateway.projection.tasks import task_origin
from gateway.projection.uris import origin_of
from mcphub.core.types import JSONObject

ENVELOPE_META_KEYS = frozenset(
    {
        CLIENT_CAPABILITIES_META_KEY,
        CLIENT_INFO_META_KEY,
        PROTOCOL_VERSION_META_KEY,
        "progressToken",
    }
)
"""What a request says about its own hop; the hub says its own to the server.

The log level is not among them: it is a wish of this request, and the server logs into its answer.
"""


@dataclass(frozen=True, slots=True)
class Addressed:
    """A request's params as its server knows them, and which server that is."""

    server: str
    params: JSONObject


def addressed_by_uri(params: JSONObject) -> Addressed | None:
    """Find the server of `resources/read`, `resources/subscribe` and `resources/unsubscribe`."""
    uri = params.get("uri")
    origin = origin_of(uri) if isinstance(uri, str) else None
    return Addressed(origin.server, {**params, "uri": origin.uri}) if origin else None


def addressed_by_task(params: JSONObject) -> Addressed | None:
    """Find the server of `tasks/get`, `tasks/result`, `tasks/update` and `tasks/cancel`."""
    task_id = params.get("taskId")
    origin = task_origin(task_id) if isinstance(task_id, str) else None
    return Addressed(origin.server, {**params, "taskId": origin.task_id}) if origin else None


def addressed_by_template(params: JSONObject) -> Addressed | None:
    """Find the server of `completion/complete` whose `ref` is a URI or a URI template."""
    ref = params.get("ref")
    found = addressed_by_uri(ref) if isinstance(ref, dict) else None
    return Addressed(found.server, {**params, "ref": found.params}) if found else None


def without_envelope(params: JSONObject) -> JSONObject:
    """Return params without what the client said about its own connection to the hub.

    Anything else in `_meta` travels on; a related task of the aggregate gets its own id back.
    """
    meta = params.get("_meta")
    if not isinstance(meta, dict):
        return params
    kept = {key: value for key, value in meta.items() if key not in ENVELOPE_META_KEYS}
    if kept == meta:
        return params
    if kept:
        return {**params, "_meta": kept}
    return {key: value for key, value in params.items() if key != "_meta"}


def own_related_task(params: JSONObject) -> JSONObject:
    """Return params whose `_meta` names a related task by its server's own id."""
    meta = params.get("_meta")
    related = meta.get(RELATED_TASK_META_KEY) if isinstance(meta, dict) else None
    found = addressed_by_task(related) if isinstance(related, dict) else None
    if found is None or not isinstance(meta, dict):
        return params
    return {**params, "_meta": {**meta, RELATED_TASK_META_KEY: found.params}}
