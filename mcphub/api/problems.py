"""Every problem code with its title and meaning: the source of `GET /api/v1/problems`.

A code is public and stable: clients branch on it. A new code gets its line here in the same commit
(a house test compares this table with the codes in the tree).
"""

from __future__ import annotations

from dataclasses import dataclass

TYPE_PREFIX = "urn:mcphub:problem:"


@dataclass(frozen=True, slots=True)
class ProblemType:
    """One kind of problem, as documented to the users of the API."""

    code: str
    status: int
    title: str
    meaning: str

    @property
    def urn(self) -> str:
        return TYPE_PREFIX + self.code


_TABLE = (
    # --- the request ---------------------------------------------------------------------------
    ("malformed_request", 400, "The request cannot be read", "The body is not JSON, or broken."),
    ("method_not_allowed", 405, "This method is not offered here", "See the `Allow` header."),
    ("not_acceptable", 406, "No offered format is acceptable", "Answers are JSON."),
    ("body_too_large", 413, "The request body is too large", "See the documented size limits."),
    ("unsupported_media_type", 415, "The body has an unknown type", "Send application/json."),
    (
        "invalid_input",
        422,
        "The request has values that cannot be used",
        "`errors` names each value by JSON pointer.",
    ),
    (
        "invalid_arguments",
        422,
        "The arguments do not fit the tool's schema",
        "`errors` names each value by JSON pointer; `sendAnyway` skips this check.",
    ),
    (
        "idempotency_mismatch",
        422,
        "The idempotency key belongs to another request",
        "The same key was used with another body.",
    ),
    ("bad_header", 422, "A header of the server cannot be sent", "Its name or value is no header."),
    ("arguments_too_large", 422, "The arguments are too large", "See the documented size limits."),
    ("target_too_long", 422, "The name or URI is too long", "At most 2000 characters."),
    (
        "precondition_required",
        428,
        "Send `If-Match` with the ETag that was read",
        "A blind write could lose what somebody else stored.",
    ),
    (
        "precondition_failed",
        412,
        "The object has changed since it was read",
        "Read it again, then repeat the change.",
    ),
    # --- who is asking -------------------------------------------------------------------------
    ("not_authenticated", 401, "A valid credential is needed", "No credential was sent."),
    (
        "invalid_credential",
        401,
        "The credential is not valid",
        "It is malformed, or nobody has it.",
    ),
    ("credential_expired", 401, "The credential has expired", "Make or ask for a new one."),
    ("credential_revoked", 401, "The credential was revoked", "Make or ask for a new one."),
    ("tenant_inactive", 401, "The tenant is switched off", "The operator switched it off."),
    ("member_inactive", 401, "The member is switched off", "An admin switched the member off."),
    (
        "not_permitted",
        403,
        "The credential does not allow this",
        "`requiredScope` names what is missing, when a scope is.",
    ),
    ("not_a_member", 403, "The user is not a member of that tenant", "See `Mcphub-Tenant`."),
    ("origin_not_allowed", 403, "This web origin may not use the credential", "See `Origin`."),
    (
        "host_not_allowed",
        403,
        "The hub has not this name",
        "The `Host` header is none of `MCPHUB_ALLOWED_HOSTS`.",
    ),
    ("csrf_failed", 403, "The CSRF token is missing or wrong", "Send it as `X-CSRFToken`."),
    # --- objects and limits --------------------------------------------------------------------
    (
        "not_found",
        404,
        "There is no such object",
        "The id is unknown, or belongs to somebody else: the answer is the same.",
    ),
    ("conflict", 409, "The object is not in a state that allows this", "Read it and try again."),
    ("last_owner", 409, "A tenant needs an owner", "Make somebody else owner first."),
    ("already_exists", 409, "There is one already", "An object with this name or id exists."),
    (
        "connector_not_removable",
        409,
        "A preset cannot be removed",
        "Only servers that a member added can be; disconnect it instead.",
    ),
    ("not_connected", 409, "The server is not connected", "Connect it, then repeat."),
    (
        "connector_id_taken",
        409,
        "The operator's connector has this id",
        "A tenant's connector cannot take it: the id would mean something else to its members.",
    ),
    (
        "not_offered",
        409,
        "The server does not offer this",
        "Its capabilities say what it does; see the server object.",
    ),
    ("server_id_taken", 409, "Another server has this id", "Ids are unique for a member."),
    ("cancelled", 409, "The call was cancelled", "Somebody asked for its end."),
    ("tool_disabled", 403, "The tool is switched off", "`PATCH` the tool to switch it on."),
    (
        "tool_definition_changed",
        409,
        "The tool's definition has changed and waits for an approval",
        "`GET /tool-changes` shows both definitions; `POST …/approve` approves the new one.",
    ),
    (
        "definition_moved",
        409,
        "The definition has changed again since it was shown",
        "Look at `GET /tool-changes` again and approve the digest there.",
    ),
    (
        "tool_not_read_only",
        403,
        "This key calls read-only tools only",
        "The tool lacks `readOnlyHint`; use a key that is not read-only.",
    ),
    (
        "idempotency_in_flight",
        409,
        "The call with this idempotency key is still running",
        "Repeat it later: the answer will be the same call. `callId` names it.",
    ),
    # --- the gateway ---------------------------------------------------------------------------
    (
        "session_needed",
        400,
        "Open a session with `initialize`, and send its id with every further message",
        "MCP revisions up to 2025-11-25 have sessions; their id travels in `Mcp-Session-Id`.",
    ),
    (
        "unknown_session",
        404,
        "There is no such session; open a new one with `initialize`",
        "It has ended, was idle for 30 minutes, or belongs to somebody else or another endpoint.",
    ),
    (
        "input_needed",
        409,
        "The server asks something that this client did not offer to answer",
        "Answer it at `/api/v1/elicitations`; `requiredCapabilities` says what to offer.",
    ),
    (
        "invalid_request_state",
        422,
        "The `requestState` is not one that the hub gave for this request, or has expired",
        "Send the request again without it.",
    ),
    (
        "client_cannot_be_asked",
        409,
        "The client cannot be asked",
        "The server asks something, and this client takes no stream on which it could be asked.",
    ),
    ("too_many_connections", 429, "The tenant has as many connections as it may", "Remove one."),
    (
        "too_many_subscriptions",
        429,
        "The connection has as many subscriptions as it may",
        "Unsubscribe from what nobody needs.",
    ),
    ("too_many_servers", 429, "The tenant has as many custom servers as it may", "Remove one."),
    ("limit_reached", 429, "A limit is reached", "A quota of the tenant or of the hub."),
    (
        "upstream_busy",
        429,
        "The server asked to be left alone for a while",
        "It answered with `Retry-After`; no worker asks again before.",
    ),
    (
        "connection_quarantined",
        503,
        "Opening the connection ended the worker again and again",
        "It rests until somebody connects it; the operator finds the reason in the logs.",
    ),
    ("rate_limited", 429, "Too many requests", "Wait for `Retry-After` seconds."),
    # --- the hub itself ------------------------------------------------------------------------
    ("internal_error", 500, "Internal error", "A fault in the hub; the log has the trace id."),
    (
        "credential_unreadable",
        500,
        "A stored secret cannot be read with the configured keys",
        "The key ring lacks the key that sealed it.",
    ),
    ("unavailable", 503, "A part of the service is away", "Repeat after `Retry-After`."),
    ("busy", 503, "The service is busy", "Repeat after `Retry-After`; nothing was accepted."),
    ("no_worker", 503, "No session worker is running", "Repeat after `Retry-After`."),
    ("worker_full", 503, "The worker holds as many sessions as it may", "Start more workers."),
    ("stdio_disabled", 409, "Programs are not started here", "The operator decides that."),
    # --- egress --------------------------------------------------------------------------------
    (
        "blocked_url",
        400,
        "This address may not be called",
        "The egress policy refuses it; the operator can allow hosts.",
    ),
    # --- upstream servers ----------------------------------------------------------------------
    (
        "upstream_unreachable",
        502,
        "The server could not be reached",
        "Name, connection or TLS failed; which one is not told for hosts that are not listed.",
    ),
    ("timeout", 504, "The server did not answer in time", "The call's deadline has passed."),
    (
        "outcome_unknown",
        502,
        "The request may have reached the server, and no answer came",
        "It is never repeated by itself.",
    ),
    (
        "authorization_needed",
        409,
        "The server wants the user to sign in",
        "`authorizationUrl` of the server object starts it.",
    ),
    (
        "protocol_error",
        502,
        "The server answered with a protocol error",
        "`rpc` has its JSON-RPC code, message and data.",
    ),
    ("not_mcp_endpoint", 502, "There is no MCP server at this address", "Check the path."),
    (
        "incompatible_version",
        502,
        "The server speaks no protocol version that the hub speaks",
        "Ask for a version of the server that speaks a published revision.",
    ),
    ("bad_session_id", 502, "The server's session id cannot be used", "It breaks the protocol."),
    ("response_too_large", 502, "The server's answer is too large", "See the size limits."),
    ("encoding_refused", 502, "The server's answer is compressed", "Only identity is accepted."),
    ("redirect_refused", 502, "The server redirects elsewhere", "Only its own origin is allowed."),
    ("session_lost", 502, "The session with the server ended", "It is opened again by itself."),
    # --- signing in at upstream servers --------------------------------------------------------
    (
        "no_oauth_metadata",
        502,
        "The server does not say where to sign in",
        "It publishes no OAuth metadata; use a token if it takes one.",
    ),
    (
        "prm_invalid",
        502,
        "The server's description of its authorization cannot be used",
        "Its protected resource metadata (RFC 9728) is broken, or about another resource.",
    ),
    (
        "as_metadata_invalid",
        502,
        "The authorization server's description of itself cannot be used",
        "Its metadata (RFC 8414 or OpenID) is broken.",
    ),
    (
        "issuer_mismatch",
        502,
        "The authorization server gives another issuer than the expected one",
        "`expectedIssuer` and `foundIssuer` differ; an operator can pin the right one.",
    ),
    (
        "pkce_unsupported",
        502,
        "The authorization server does not offer PKCE with S256",
        "An operator can set for the server that it works all the same.",
    ),
    (
        "bad_authorization_endpoint",
        502,
        "The authorization server's sign-in address cannot be used",
        "It is no plain https address.",
    ),
    (
        "insecure_oauth_url",
        502,
        "An address of the authorization is not https",
        "The server's operator has to correct its metadata.",
    ),
    (
        "registration_unusable",
        502,
        "The hub could not register as a client of the authorization server",
        "Register it there by hand and enter the client id.",
    ),
    (
        "insufficient_scope",
        403,
        "The server wants more permissions than it was given, again and again",
        "`neededScopes` and `grantedScopes` differ after several sign-ins.",
    ),
    (
        "auth_temporarily_unavailable",
        503,
        "The authorization server cannot be used right now",
        "The tokens are kept; repeat after `Retry-After`.",
    ),
    (
        "authorization_state_invalid",
        400,
        "This sign-in is unknown, too old, already finished, or not yours",
        "Start it once more.",
    ),
    (
        "authorization_refused",
        409,
        "The authorization server did not give access",
        "`reason` is its error code; start the sign-in once more.",
    ),
    # --- questions of servers ------------------------------------------------------------------
    (
        "invalid_answer",
        422,
        "The answer does not fit what the server asked for",
        "`errors` names each property; the question stays open.",
    ),
    ("input_closed", 409, "The question has been answered already", "From another tab or client."),
    (
        "input_expired",
        409,
        "The question was not answered in time",
        "A call that waited for the answer has expired.",
    ),
    (
        "input_declined",
        409,
        "The call ended since its question was declined",
        "The server cannot be told of that in another way.",
    ),
    (
        "input_refused",
        502,
        "The server asked for input that it may not ask for",
        "It was not declared to it, or is in a form that nobody can answer.",
    ),
    (
        "too_many_input_rounds",
        502,
        "The server asked for input again and again",
        "A call may ask ten times.",
    ),
    (
        "too_many_inputs",
        502,
        "The server has asked too many questions that nobody has answered yet",
        "Answer or decline some; see `GET /elicitations`.",
    ),
    # --- tools ---------------------------------------------------------------------------------
    ("unknown_tool", 404, "The server has no such tool", "The catalog does not list it."),
)

PROBLEMS: dict[str, ProblemType] = {row[0]: ProblemType(*row) for row in _TABLE}
