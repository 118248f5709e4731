"""Client registrations: found, kept, dropped."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from mcphub.core.crypto import Secret
from mcphub.core.sealing import seal, unseal
from oauth.clients import Client
from oauth.models import AuthorizationRequest, ClientRegistration, Grant, Source
from oauth.names import ClientAuthMethod
from oauth.records.time import database_now

SECRET_MARGIN = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a registration is keyed by."""

    tenant_id: UUID
    issuer: str
    redirect_uri: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewClient:
    source: Source
    client_id: str
    auth_method: ClientAuthMethod
    secret: Secret | None = None
    registration_token: Secret | None = None
    preset: str = ""
    secret_lasts: float | None = None
    """Seconds until the secret ends; None: it does not end."""


def current(place: Place) -> Client | None:
    """Return the client that was registered here and whose secret has not ended."""
    row = _rows(place).filter(source=Source.DCR).first()
    if row is None:
        return None
    ends = row.secret_expires_at
    if ends is not None and ends <= database_now() + SECRET_MARGIN:
        return None
    return client_of(row)


def keep(place: Place, new: NewClient) -> Client:
    """Keep a client; when two flows registered at the same time, both use the first."""
    rows = _rows(place).filter(source=new.source, preset=new.preset)
    row = rows.first()
    if row is None:
        try:
            with transaction.atomic():
                row = _insert(place, new)
        except IntegrityError:
            row = rows.get()
    elif new.source is not Source.DCR:
        _renew(row, new)
    return client_of(row)


def preset_of(client_id: str, server_origin: str) -> str:
    """Return what tells one operator's client at one server from all others."""
    return hashlib.sha256(f"{server_origin}\n{client_id}".encode()).hexdigest()


def is_bound_elsewhere(place: Place, preset: str) -> bool:
    """Whether the operator's client was used at another issuer before (SEP-2352)."""
    rows = ClientRegistration.unscoped.filter(
        tenant_id=place.tenant_id, preset=preset, dropped_at__isnull=True
    )
    return rows.exclude(issuer=place.issuer).exists()


def replace(place: Place, new: NewClient) -> Client:
    """Keep a client instead of the one whose secret has ended."""
    _rows(place).filter(source=Source.DCR, secret_expires_at__isnull=False).update(
        dropped_at=database_now()
    )
    return keep(place, new)


def drop(registration_id: UUID) -> bool:
    """Never use a registration for new sign-ins again; only what the hub registered itself."""
    rows = ClientRegistration.unscoped.filter(
        pk=registration_id, source=Source.DCR, dropped_at__isnull=True
    )
    return bool(rows.update(dropped_at=database_now()))


def drop_if_abandoned(place: Place, subject_key: UUID) -> bool:
    """Drop a registration with which this member's last sign-in got no answer (row B06).

    Some servers forget clients and tell only the browser. One that worked since is kept.
    """
    row = _rows(place).filter(source=Source.DCR).first()
    if row is None:
        return False
    stale = AuthorizationRequest.unscoped.filter(
        subject_key=subject_key, registration=row, expires_at__lt=database_now()
    )
    if row.last_used_at is not None:
        stale = stale.filter(created_at__gt=row.last_used_at)
    return stale.exists() and drop(row.pk)


def source_of(registration_id: UUID) -> str:
    return ClientRegistration.unscoped.values_list("source", flat=True).get(pk=registration_id)


def note_used(registration_id: UUID) -> None:
    ClientRegistration.unscoped.filter(pk=registration_id).update(last_used_at=database_now())


def client_of(row: ClientRegistration) -> Client:
    return Client(
        registration_id=row.pk,
        issuer=row.issuer,
        client_id=row.client_id,
        auth_method=ClientAuthMethod(row.auth_method),
        secret=unseal(row, "sealed_secret"),
    )


def reset(registration_id: UUID) -> bool:
    """Never use a registration of any kind for new sign-ins again; an admin asked for it."""
    rows = ClientRegistration.unscoped.filter(pk=registration_id, dropped_at__isnull=True)
    return bool(rows.update(dropped_at=database_now()))


def prune() -> int:
    """Remove dropped registrations that no grant and no request uses."""
    rows = ClientRegistration.unscoped.filter(dropped_at__isnull=False)
    used = Grant.unscoped.values("registration")
    asked = AuthorizationRequest.unscoped.values("registration")
    return rows.exclude(pk__in=used).exclude(pk__in=asked).delete()[0]


def _rows(place: Place) -> QuerySet[ClientRegistration]:
    return ClientRegistration.unscoped.filter(
        tenant_id=place.tenant_id,
        issuer=place.issuer,
        redirect_uri=place.redirect_uri,
        dropped_at__isnull=True,
    )


def _insert(place: Place, new: NewClient) -> ClientRegistration:
    row = ClientRegistration(
        tenant_id=place.tenant_id,
        issuer=place.issuer,
        redirect_uri=place.redirect_uri,
        source=new.source,
        preset=new.preset,
        client_id=new.client_id,
        auth_method=new.auth_method.value,
    )
    if new.secret_lasts is not None:
        row.secret_expires_at = database_now() + timedelta(seconds=new.secret_lasts)
    row.sealed_secret = seal(row, "sealed_secret", new.secret)
    row.sealed_registration_token = seal(row, "sealed_registration_token", new.registration_token)
    row.save(force_insert=True)
    return row


def _renew(row: ClientRegistration, new: NewClient) -> None:
    """Take over what the operator changed about a client of the operator's own."""
    known = unseal(row, "sealed_secret")
    if row.auth_method == new.auth_method.value and known == new.secret:
        return
    row.auth_method = new.auth_method.value
    row.sealed_secret = seal(row, "sealed_secret", new.secret)
    row.save(update_fields=["auth_method", "sealed_secret"])
