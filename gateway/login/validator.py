"""What the authorization server accepts: public clients, codes by digest, one family per login."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import Q
from oauth2_provider.models import get_refresh_token_model
from oauth2_provider.oauth2_validators import OAuth2Validator
from oauthlib.oauth2.rfc6749 import errors

from gateway.login import logins, principals
from gateway.login.logins import EndReason
from mcphub.core.errors import NotAuthenticatedError
from tenants.credentials import hash_of

CODE = "authorization_code"


class LoginValidator(OAuth2Validator):
    """Adds to the toolkit's rules; `request` is oauthlib's, on which they keep their findings."""

    # --- clients: none has a secret, PKCE proves who redeems a code ---------------------------

    def client_authentication_required(self, request: Any, *args: Any, **kwargs: Any) -> bool:
        return False

    def authenticate_client(self, request: Any, *args: Any, **kwargs: Any) -> bool:
        return False

    # --- codes: stored by digest, redeemed once -------------------------------------------------

    def _create_authorization_code(self, request: Any, code: Any, expires: Any = None) -> Any:
        if request.code_challenge_method != "S256":
            raise errors.InvalidRequestError(description="PKCE needs S256.", request=request)
        digest = hash_of(code["code"])
        with transaction.atomic():
            logins.begin(request.consent, code_digest=digest)
            return super()._create_authorization_code(request, {"code": digest}, expires)

    def validate_code(
        self, client_id: str, code: str, client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        request.code = hash_of(code)  # the steps that follow look it up as it is stored
        if super().validate_code(client_id, request.code, client, request, *args, **kwargs):
            return True
        logins.end_by_code(request.code, client)
        return False

    # --- tokens ----------------------------------------------------------------------------------

    def _save_bearer_token(self, token: Any, request: Any, *args: Any, **kwargs: Any) -> None:
        """Issue to exactly one of several requests with the same code or refresh token."""
        if request.grant_type == CODE:
            request.login_id = logins.redeem(request.code)
            is_first = request.login_id is not None
        else:
            tokens = get_refresh_token_model().objects.select_for_update()
            is_first = tokens.filter(
                pk=request.refresh_token_instance.pk, revoked__isnull=True
            ).exists()
        if not is_first:
            raise errors.InvalidGrantError(request=request)
        super()._save_bearer_token(token, request, *args, **kwargs)

    def _create_refresh_token(
        self, request: Any, refresh_token_code: str, access_token: Any, previous: Any
    ) -> Any:
        made = super()._create_refresh_token(request, refresh_token_code, access_token, previous)
        if previous is None:
            made.token_family = request.login_id
            made.save(update_fields=["token_family"])
        return made

    def validate_refresh_token(
        self, refresh_token: str, client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        shown = get_refresh_token_model().objects.filter(token_checksum=hash_of(refresh_token))
        family = shown.values_list("token_family", flat=True).first()
        login = logins.find(family)
        if login is None:
            return False
        if shown.filter(revoked__isnull=False).exists():
            logins.end(login, EndReason.TOKEN_REUSED)
            return False
        try:
            principals.by_id(str(login.pk))
        except NotAuthenticatedError:
            return False
        return bool(super().validate_refresh_token(refresh_token, client, request, *args, **kwargs))

    def revoke_token(
        self, token: str, token_type_hint: str, request: Any, *args: Any, **kwargs: Any
    ) -> None:
        """End the whole login, whichever of its tokens the client gives back (RFC 7009 §2.1)."""
        digest = hash_of(token)
        tokens = get_refresh_token_model().objects.filter(application=request.client)
        is_it = Q(token_checksum=digest) | Q(access_token__token_checksum=digest)
        for family in tokens.filter(is_it).values_list("token_family", flat=True):
            login = logins.find(family)
            if login is not None:
                logins.end(login, EndReason.CLIENT)
