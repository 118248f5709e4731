"""Failures of an outbound exchange that the error tree has no class for; texts are fixed."""

from __future__ import annotations

from mcphub.core.errors import UpstreamError


class ResponseTooLargeError(UpstreamError):
    code = "response_too_large"
    retryable = False
    title = "The server's answer is too large"


class EncodingRefusedError(UpstreamError):
    code = "encoding_refused"
    retryable = False
    title = "The server's answer is compressed"


class RedirectRefusedError(UpstreamError):
    code = "redirect_refused"
    retryable = False
    title = "The server redirects elsewhere"
