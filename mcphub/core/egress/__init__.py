"""The one door by which HTTP leaves the hub: what may be called, and the client that calls it."""

from mcphub.core.egress.client import (
    BufferedResponse,
    EgressClient,
    EgressRequest,
    EgressResponse,
    ResponseHeaders,
)
from mcphub.core.egress.errors import (
    EncodingRefusedError,
    RedirectRefusedError,
    ResponseTooLargeError,
)
from mcphub.core.egress.policy import AllowRule, EgressPolicy, policy_from_settings

__all__ = [
    "AllowRule",
    "BufferedResponse",
    "EgressClient",
    "EgressPolicy",
    "EgressRequest",
    "EgressResponse",
    "EncodingRefusedError",
    "RedirectRefusedError",
    "ResponseHeaders",
    "ResponseTooLargeError",
    "policy_from_settings",
]
