"""Telling names, and the spellings in which a known secret travels; pure.

Names decide on their own: `access_token`, `X-Api-Key`, `clientSecret`. Known secrets are found in
clear, JSON-escaped, percent-encoded and base64 at any alignment (so also inside `Basic …`).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import quote, quote_plus

from mcphub.core.types import JSONValue

MARK = "[redacted]"
SHORTEST = 4
SHORTEST_ENCODED = 8

PARTS = (
    *("password", "passwd", "passphrase", "passcode", "secret", "authorization", "cookie"),
    *("apikey", "credential", "privatekey", "accesskey", "signingkey", "encryptionkey", "sshkey"),
    *("authkey", "masterkey", "subscriptionkey", "licensekey", "accountkey", "servicekey"),
    *("sessionid", "clientassertion", "codeverifier", "bearer"),
)
ENDS = ("token", "tokens", "tokenvalue")
WHOLE = frozenset(
    {
        *("auth", "pwd", "pass", "pin", "otp", "cvv", "cvc", "ssn", "jwt", "sid", "assertion"),
        *("passwort", "kennwort"),
    }
)
HARMLESS = frozenset({"progresstoken"})

_NAME_NOISE = str.maketrans("", "", "-_. ")
_TEXT_WORDS = (
    *("secret", "pass", "authorization", "cookie", "key", "credential", "session", "assertion"),
    *("verifier", "bearer", "basic ", "kennwort", "@"),
    *('"auth"', '"pwd"', '"pin"', '"otp"', '"cvv"', '"cvc"', '"ssn"', '"jwt"', '"sid"'),
)
_TEXT_WORDS = (
    *("secret", "pass", "authorization", "cookie", "key", "credential", "session", "assertion"),
    *("verifier", "bearer", "basic ", "kennwort", "@"),
    *('"auth"', '"pwd"', '"pin"', '"otp"', '"cvv"', '"cvc"', '"ssn"', '"jwt"', '"sid"'),
)
_INLINE_WORDS = (
    r"(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|authorization|cookie|credentials?|session[_-]?id|assertion|code[_-]?verifier)"
)
_INLINE = re.compile(
    rf'(?P<json>{_INLINE_WORDS}[\w-]{{0,30}}\\{{0,3}}"\s{{0,5}}:\s{{0,5}}\\{{0,3}}")[^"\\]{{1,4096}}'
    rf"|(?P<form>{_INLINE_WORDS}[\w-]{{0,30}}=)[^&\s\"'<>;\\]{{1,4096}}"
    r"|(?P<scheme>\b(?:bearer|basic)\s{1,3})[A-Za-z0-9._~+/=-]{12,4096}"
    r"|(?P<url>://)[^/\s:@]{0,200}:[^/\s@]{1,400}(?=@)",
    re.IGNORECASE,
)


@lru_cache(maxsize=4096)
def is_telling(name: str) -> bool:
    """Whether a value under this name is a secret by its name alone."""
    word = name[:200].lower().translate(_NAME_NOISE)
    if word in HARMLESS:
        return False
    return word in WHOLE or word.endswith(ENDS) or any(part in word for part in PARTS)


def is_telling_text(text: str) -> bool:
    """Whether a message's JSON text may hold a telling name; errs on the side of yes, is fast."""
    lower = text.lower()
    if lower.count("token") > lower.count('"progresstoken"'):
        return True
    return any(word in lower for word in _TEXT_WORDS)


def hide_inline(text: str) -> str:
    """Hide secrets inside a text: JSON and forms in strings, `Bearer …`, a URL's user part."""
    return _INLINE.sub(_marked, text)


def _marked(match: re.Match[str]) -> str:
    return f"{match[match.lastgroup or 0]}{MARK}"


class KnownSecrets:
    """The secrets of one connection, prepared for searching; never shows them."""

    __slots__ = ("_exact", "_forms", "_in_json")

    def __init__(self, secrets: Iterable[str]) -> None:
        usable = frozenset(s for s in secrets if len(s) >= SHORTEST)
        forms = {form for secret in usable for form in _forms_of(secret)}
        self._exact = usable
        self._in_json = tuple(forms | {_escaped(form) for form in forms})
        self._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))

    def __repr__(self) -> str:
        return f"KnownSecrets({len(self._exact)})"

    def __bool__(self) -> bool:
        return bool(self._forms)

    def is_in(self, text: str) -> bool:
        """Whether a message's JSON text holds one."""
        return any(form in text for form in self._in_json)

    def is_one(self, text: str) -> bool:
        return text in self._exact

    def hidden(self, value: JSONValue) -> JSONValue:
        """Return a JSON value with every secret in its texts hidden; the same one without any."""
        if not self._forms or not self.is_in(json.dumps(value, ensure_ascii=False)):
            return value
        return self._hidden(value)

    def _hidden(self, value: JSONValue) -> JSONValue:
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, list):
            return [self._hidden(item) for item in value]
        if isinstance(value, dict):
            return {self.hide(key): self._hidden(item) for key, item in value.items()}
        return value

    def hide(self, text: str) -> str:
        for form in self._forms:
            if form in text:
                text = text.replace(form, MARK)
        return text


NO_SECRETS = KnownSecrets(())


def _forms_of(secret: str) -> set[str]:
    plain = secret.encode("utf-8", "surrogatepass")
    forms = {
        secret,
        json.dumps(secret)[1:-1],
        _escaped(secret),
        quote(plain, safe=""),
        quote_plus(plain),
    }
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + plain).decode()
        first = (0, 2, 3)[offset]
        last = (len(plain) + offset) * 8 // 6
        for form in (encoded[first:last], encoded[first:last].translate(_URL_SAFE)):
            if len(form) >= SHORTEST_ENCODED:
                forms.add(form)
    return forms


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


_URL_SAFE = str.maketrans("+/", "-_")
