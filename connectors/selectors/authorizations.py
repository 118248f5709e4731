"""The authorization of servers as their member may know it: when it ends, where to sign in."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

from connectors.selectors.views import AuthView, ServerView
from connectors.server_spec import AuthType
from connectors.states import State
from oauth import selectors as oauth
from oauth.selectors import GrantView, RequestView
from tenants.principal import Principal


def with_authorizations(principal: Principal, views: Sequence[ServerView]) -> list[ServerView]:
    """Return the views with grants and addresses; two queries, none where nobody signs in."""
    signing = [view for view in views if view.auth.type is AuthType.OAUTH and view.connection_id]
    if not signing:
        return list(views)
    keys = [view.connection_id for view in signing if view.connection_id]
    found = oauth.grants_for(principal, keys)
    waiting = [view.connection_id for view in signing if view.state is State.AUTH_REQUIRED]
    asked = oauth.requests_for(principal, [key for key in waiting if key])
    return [_filled(view, found, asked) for view in views]


def authorization_url_for(principal: Principal, connection_id: uuid.UUID) -> str | None:
    """Return where the principal can sign in now. One query."""
    asked = oauth.requests_for(principal, [connection_id]).get(connection_id)
    return asked.authorization_url if asked else None


def _filled(
    view: ServerView, grants: dict[uuid.UUID, GrantView], requests: dict[uuid.UUID, RequestView]
) -> ServerView:
    key = view.connection_id
    if key is None:
        return view
    grant, request = grants.get(key), requests.get(key)
    auth = _with_grant(view.auth, grant) if grant else view.auth
    if request is None:
        return replace(view, auth=auth)
    auth = replace(auth, request=request)
    return replace(view, auth=auth, authorization_url=request.authorization_url)


def _with_grant(auth: AuthView, grant: GrantView) -> AuthView:
    return replace(
        auth,
        has_credentials=not grant.is_lost,
        granted_scopes=() if grant.is_lost else grant.scopes,
        signed_in_as=grant.signed_in_as,
        issuer=grant.issuer,
        forecast=grant.forecast,
    )
