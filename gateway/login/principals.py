"""From an access token to its Principal: one more kind of credential, good at `/mcp` alone."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import Q
from oauth2_provider.models import get_refresh_token_model

from gateway.login import policy
from gateway.login.models import CREDENTIAL, ClientLogin
from gateway.login.provider import ACCESS_PREFIX
from mcphub.core.clock import now
from mcphub.core.errors import NotAuthenticatedError
from tenants import credential_kinds, credentials
from tenants.credential_kinds import CredentialKind
from tenants.principal import Principal

LAST_USED_EVERY = timedelta(minutes=1)


def register() -> None:
    kind = CredentialKind(name=CREDENTIAL, prefix=ACCESS_PREFIX, by_token=by_token, by_id=by_id)
    credential_kinds.register(kind)


def by_token(token: str, resource: str) -> Principal:
    """Return who the token stands for at `resource`. Raises NotAuthenticatedError.

    A live access token always has its live refresh token, whose family is the login.
    """
    digest = credentials.hash_of(token)
    pairs = get_refresh_token_model().objects.select_related("access_token")
    pair = pairs.filter(access_token__token_checksum=digest, revoked__isnull=True).first()
    if pair is None or pair.access_token is None or pair.token_family is None:
        raise credentials.invalid()
    login = _live_login(pair.token_family)
    if not policy.covers(settings.BASE_URL + login.endpoint, resource):
        raise NotAuthenticatedError(
            f"This token is for {login.endpoint} alone.", code="invalid_credential"
        )
    if pair.access_token.is_expired():
        raise NotAuthenticatedError("This token has expired.", code="credential_expired")
    _mark_used(login)
    return _principal(login, pair.access_token.scope.split(), ends=pair.access_token.expires)


def by_id(login_id: str) -> Principal:
    """Return the same Principal as it is now, without a token."""
    login = _live_login(UUID(login_id))
    return _principal(login, login.scopes, ends=None)


def _live_login(login_id: UUID) -> ClientLogin:
    logins = ClientLogin.unscoped.select_related("member__tenant", "member__user", "client")
    login = logins.filter(pk=login_id).first()
    if login is None or not login.client.is_usable(None):
        raise credentials.invalid()
    if login.ended_at is not None:
        raise NotAuthenticatedError("This login was ended.", code="credential_revoked")
    credentials.check_member(login.member)
    return login


def _principal(login: ClientLogin, scopes: list[str], *, ends: datetime | None) -> Principal:
    return Principal(
        tenant_id=login.tenant_id,
        member_id=login.member_id,
        scopes=credentials.scopes_of(login.member, scopes),
        credential=login.credential,
        may_add_servers=False,
        expires_at=ends,
    )


def _mark_used(login: ClientLogin) -> None:
    moment = now()
    old = Q(last_used_at__isnull=True) | Q(last_used_at__lt=moment - LAST_USED_EVERY)
    if login.last_used_at is None or login.last_used_at < moment - LAST_USED_EVERY:
        ClientLogin.unscoped.filter(old, pk=login.pk).update(last_used_at=moment)
