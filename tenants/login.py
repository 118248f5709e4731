"""The forms to log in with a password: few attempts per account and per address."""

from __future__ import annotations

import hashlib
import math
from typing import Any

from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import ValidationError

from mcphub.core.errors import LimitError
from tenants import rates
from tenants.rates import Rate

PER_ACCOUNT = Rate(name="login_account", limit=10, window=300)
PER_ADDRESS = Rate(name="login_address", limit=30, window=300)


class MemberLoginForm(AuthenticationForm):
    """Counts before the password is looked at, so that a refusal tells nothing about it."""

    def clean(self) -> dict[str, Any]:
        account = str(self.cleaned_data.get("username", "")).casefold()
        address = self.request.META.get("REMOTE_ADDR", "") if self.request else ""
        try:
            rates.take(PER_ADDRESS, address)
            rates.take(PER_ACCOUNT, hashlib.sha256(account.encode()).hexdigest())
        except LimitError as exc:
            wait = math.ceil(exc.retry_after or PER_ACCOUNT.window)
            raise ValidationError(
                f"Too many attempts to log in. Wait {wait} seconds, then try again; whoever has a "
                "shell on the hub's machine gets in at once with “mcphub admin-link”.",
                code="rate_limited",
            ) from exc
        return super().clean()


class LimitedLoginForm(MemberLoginForm, AdminAuthenticationForm):
    """The admin site's: the same counters, for operators alone."""
