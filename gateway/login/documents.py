"""Client ID Metadata Documents: fetched through the hub's egress guard, for a consent page only."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

from asgiref.sync import async_to_sync
from django.urls import reverse
from oauth2_provider.cimd import CIMDError

from mcphub.core.clock import Deadline
from mcphub.core.egress import BufferedResponse, EgressClient, EgressRequest, policy_from_settings
from mcphub.core.errors import HubError
from mcphub.core.types import JSONObject

DOCUMENT_BYTES = 16 << 10
DOCUMENT_SECONDS = 5.0
FRESH_SECONDS = 3600


class AtConsentOnly:
    """Lets documents be fetched for a person who is signed in, never for the open endpoints."""

    def has_permission(self, request: Any, client_id: str) -> bool:
        is_document = urlsplit(client_id).scheme == "https" and "#" not in client_id
        return is_document and urlsplit(request.uri).path == reverse("client-login-authorize")


class EgressFetcher:
    """The toolkit's fetcher, by the one door through which HTTP leaves the hub."""

    def fetch(self, client_id: str) -> tuple[JSONObject, int]:
        """Return the document and for how many seconds it is fresh. Raises CIMDError."""
        try:
            answer = async_to_sync(_fetch)(client_id)
        except HubError as exc:
            raise CIMDError(f"not fetched: {exc.problem_code}") from exc
        is_json = answer.content_type == "application/json" or answer.content_type.endswith("+json")
        if answer.status != 200 or not is_json:
            raise CIMDError(f"no document: status {answer.status}")
        try:
            document = json.loads(answer.body)
        except ValueError as exc:
            raise CIMDError("no JSON") from exc
        if not isinstance(document, dict):
            raise CIMDError("no JSON object")
        return document, FRESH_SECONDS


async def _fetch(url: str) -> BufferedResponse:
    http = EgressClient(policy_from_settings())
    try:
        return await http.fetch(
            EgressRequest(
                method="GET",
                url=url,
                headers={"Accept": "application/json"},
                deadline=Deadline.after(DOCUMENT_SECONDS),
                max_bytes=DOCUMENT_BYTES,
                may_redirect=False,
            )
        )
    finally:
        await http.aclose()
