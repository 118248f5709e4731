"""Client: the hub's identity at one issuer, and how it proves it at the token endpoint."""

from __future__ import annotations

import base64
import json
import secrets
import time
from dataclasses import dataclass
from urllib.parse import quote, urlencode
from uuid import UUID

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey

from mcphub.core.crypto import Secret
from oauth.errors import RegistrationUnusableError
from oauth.names import ClientAuthMethod

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
ASSERTION_SECONDS = 60
CURVES = {
    "P-256": "ES256",
    "P-384": "ES384",
    "P-521": "ES512",
    "Ed25519": "Ed25519",
    "Ed448": "Ed448",
}
"""Signature by curve (RFC 7518 §3.4, RFC 9864 §2.2)."""
ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", *CURVES.values()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A registration with its secret opened; `secret` is the private key for private_key_jwt."""

    registration_id: UUID
    issuer: str
    client_id: str
    auth_method: ClientAuthMethod
    secret: Secret | None = None


@dataclass(frozen=True, slots=True)
class SignedForm:
    """A form with the client's proof in it; the representation hides both parts."""

    content: bytes
    headers: dict[str, str]

    def __repr__(self) -> str:
        return "SignedForm(…)"


def sign(client: Client, form: dict[str, str]) -> SignedForm:
    """Return the form with the client's proof. Raises RegistrationUnusableError."""
    fields, headers = dict(form), {}
    method, secret = client.auth_method, client.secret
    if method is ClientAuthMethod.NONE:
        fields["client_id"] = client.client_id
    elif secret is None:
        raise RegistrationUnusableError("The client's secret is missing.")
    elif method is ClientAuthMethod.BASIC:
        # RFC 6749 §2.3.1: both parts are form-encoded first.
        pair = f"{quote(client.client_id, safe='')}:{quote(secret.value, safe='')}"
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    elif method is ClientAuthMethod.POST:
        fields |= {"client_id": client.client_id, "client_secret": secret.value}
    else:
        fields |= {
            "client_id": client.client_id,
            "client_assertion_type": ASSERTION_TYPE,
            "client_assertion": _assertion(client, secret),
        }
    return SignedForm(urlencode(fields).encode(), headers)


def _assertion(client: Client, secret: Secret) -> str:
    """Return a JWT for this one request (RFC 7523 §3); its audience is the issuer."""
    now = int(time.time())
    claims = {
        "iss": client.client_id,
        "sub": client.client_id,
        "aud": client.issuer,
        "jti": secrets.token_urlsafe(16),
        "iat": now,
        "exp": now + ASSERTION_SECONDS,
    }
    try:
        key = _key(secret.value)
        algorithm = _algorithm(key)
        header = {"alg": algorithm} | ({"kid": key.kid} if key.kid else {})
        return jwt.encode(header, claims, key, algorithms=[algorithm])
    except (JoseError, ValueError, TypeError, KeyError) as exc:
        raise RegistrationUnusableError("The client's private key cannot be used.") from exc


def _key(text: str) -> RSAKey | ECKey | OKPKey:
    kinds: dict[str, type[RSAKey | ECKey | OKPKey]] = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}
    if text.lstrip().startswith("{"):
        value = json.loads(text)
        return kinds[value["kty"]].import_key(value)
    for kind in kinds.values():
        try:
            return kind.import_key(text)
        except (ValueError, TypeError, JoseError):
            continue
    raise ValueError("neither PEM nor JWK")


def _algorithm(key: RSAKey | ECKey | OKPKey) -> str:
    """Return what the key itself says (RFC 7517 §4.4), else the usual one of its kind."""
    if key.alg in ALGORITHMS:
        return key.alg
    return "RS256" if isinstance(key, RSAKey) else CURVES[key.curve_name]
