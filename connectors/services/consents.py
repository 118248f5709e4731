"""Consent: which requests of a server a member lets through to themselves or their app.

A request is declared to a server only where its switch is on and the member has consented.
"""

from __future__ import annotations

from collections.abc import Mapping

from django.db import transaction

from connectors import events
from connectors.models import Connection
from connectors.server_spec import Relay
from connectors.services.reopening import reopen
from tenants.principal import Principal

COLUMNS = {
    Relay.ELICITATION: "consents_elicitation",
    Relay.SAMPLING: "consents_sampling",
    Relay.ROOTS: "consents_roots",
}


def consent(principal: Principal, row: Connection, given: Mapping[Relay, bool]) -> Connection:
    """Give or take back a member's consent; what is not named stays as it is.

    A session says what it declares when it begins, so a wanted one is opened anew.
    """
    changes = {
        COLUMNS[relay]: is_given
        for relay, is_given in given.items()
        if getattr(row, COLUMNS[relay]) != is_given
    }
    if not changes:
        return row
    with transaction.atomic():
        Connection.objects.of(principal).filter(pk=row.pk).update(**changes)
        row.refresh_from_db()
        if row.is_wanted:
            reopen(row)
        else:
            events.announce_server(row)
    row.refresh_from_db()
    return row
