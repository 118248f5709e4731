"""Failures of an outbound exchange that the error tree has no class for; texts are fixed."""

from __future__ import annotations

from mcphub.core.errors import UpstreamError


class ResponseTooLargeError(UpstreamError):
    code = "response_too_large"
    retryable = False
    title = "The server's answer is larger than the limit"


class EncodingRefusedError(UpstreamError):
    code = "encoding_refused"
    retryable = False
    title = "The server's answer is compressed although no compression was offered"


class RedirectRefusedError(UpstreamError):
    code = "redirect_refused"
    retryable = False
    title = "The server redirects to a place that is not followed"
