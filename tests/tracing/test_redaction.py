"""Redaction: what is hidden, by name and by value, and what text any message leaves."""

from __future__ import annotations

import base64
import json
import sys
import time
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcphub.core.types import JSONValue
from tracing.redaction import (
    CUT,
    DEEPEST,
    Redacted,
    Rules,
    redact,
    redact_raw,
    secret_names,
    storable,
)
from tracing.secrets import MARK, KnownSecrets, is_telling, is_telling_text

SECRET = "sk-live-Zm9vYmFy/äöü+1"

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def content(result: Redacted) -> Any:
    return json.loads(result.text)


def hidden(message: JSONValue, **rules: Any) -> Any:
    result = redact(message, Rules(**rules))
    assert result.redacted
    return content(result)


@pytest.mark.parametrize(
    "name",
    [
        *("password", "Password", "user_password", "passwd", "pwd", "passphrase", "secret"),
        *("clientSecret", "client_secret", "token", "access_token", "refreshToken", "id-token"),
        *("api_key", "apiKey", "X-API-Key", "apikey", "Authorization", "Proxy-Authorization"),
        *("cookie", "Set-Cookie", "credentials", "privateKey", "private_key", "AWS_ACCESS_KEY"),
        *("sessionId", "Mcp-Session-Id", "code_verifier", "client_assertion", "otp", "PIN"),
    ],
)
def test_value_under_a_telling_name_is_hidden_at_any_depth(name: str) -> None:
    message: JSONValue = {"params": {"arguments": {"deep": [{name: "hunter2"}]}}}
    assert hidden(message)["params"]["arguments"]["deep"] == [{name: MARK}]


@pytest.mark.parametrize("value", ["hunter2", 1234, 0.5, ["a", "b"], {"inner": "x"}])
def test_value_of_any_type_under_a_telling_name_is_hidden(value: JSONValue) -> None:
    assert hidden({"password": value}) == {"password": MARK}


@pytest.mark.parametrize("value", [None, True, False, ""])
def test_value_that_tells_nothing_stays(value: JSONValue) -> None:
    assert redact({"password": value}) == Redacted(
        json.dumps({"password": value}, separators=(",", ":")), redacted=False, truncated=False
    )


@pytest.mark.parametrize(
    "message",
    [
        {"_meta": {"progressToken": "p-1"}},
        {"maxTokens": 100, "usage": {"input_tokens": 5, "total_tokens": 9}},
        {"name": "keyboard", "monkey": "x", "passage": "y", "author": "z", "keyword": "w"},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo"}},
    ],
)
def test_harmless_names_stay(message: JSONValue) -> None:
    result = redact(message)
    assert content(result) == message
    assert not result.redacted


def test_name_and_value_pairs_are_hidden_by_the_name() -> None:
    headers: JSONValue = [
        {"name": "Authorization", "value": "x1"},
        {"name": "Accept", "value": "y1"},
    ]
    assert hidden({"headers": headers})["headers"] == [
        {"name": "Authorization", "value": MARK},
        {"name": "Accept", "value": "y1"},
    ]


def test_schema_of_a_secret_argument_stays_readable_without_its_literals() -> None:
    schema: JSONValue = {
        "type": "object",
        "properties": {
            "password": {"type": "string", "default": "hunter2", "examples": ["a"], "title": "P"},
            "token": "no schema",
        },
        "required": ["password"],
    }
    tools = hidden({"result": {"tools": [{"name": "login", "inputSchema": schema}]}})
    assert tools["result"]["tools"][0]["inputSchema"] == {
        "type": "object",
        "properties": {
            "password": {"type": "string", "default": MARK, "examples": MARK, "title": "P"},
            "token": MARK,
        },
        "required": ["password"],
    }


def test_arguments_that_the_schema_declares_secret_are_hidden_and_nothing_else() -> None:
    schema: JSONValue = {
        "properties": {
            "Name": {"type": "string", "writeOnly": True},
            "inner": {"type": "object", "properties": {"code": {"format": "password"}}},
            "open": {"type": "string"},
        }
    }
    names = secret_names(schema)
    assert names == {"name", "code"}
    message: JSONValue = {
        "params": {
            "name": "login",
            "arguments": {"Name": "a", "inner": {"code": "b"}, "open": "c"},
        }
    }
    assert hidden(message, names=names)["params"] == {
        "name": "login",
        "arguments": {"Name": MARK, "inner": {"code": MARK}, "open": "c"},
    }


def test_secret_names_of_a_hostile_schema_take_bounded_work() -> None:
    wide: JSONValue = [{"properties": {"x": {"writeOnly": True}}} for _ in range(200_000)]
    assert secret_names({"anyOf": wide}) <= {"x"}
    assert secret_names("no schema") == frozenset()


@pytest.mark.parametrize(
    "spelling",
    [
        lambda s: s,
        lambda s: f"before {s} after",
        lambda s: json.dumps({"inner": s}),
        lambda s: json.dumps({"inner": s}, ensure_ascii=False),
        lambda s: f"https://x.example/?q={quote(s, safe='')}",
        lambda s: f"a={quote_plus(s)}",
        lambda s: "Basic " + base64.b64encode(f"user:{s}".encode()).decode(),
        lambda s: "Basic " + base64.b64encode(f"u:{s}".encode()).decode(),
        lambda s: base64.urlsafe_b64encode(f"me:{s}:x".encode()).decode(),
        lambda s: base64.b64encode(s.encode()).decode(),
    ],
)
def test_known_secret_is_hidden_in_every_spelling(spelling: Any) -> None:
    text = spelling(SECRET)
    shown = hidden({"text": text, "list": [text]}, secrets=KnownSecrets([SECRET]))
    for form in (SECRET, quote(SECRET, safe=""), base64.b64encode(SECRET.encode()).decode()[4:-4]):
        assert form not in json.dumps(shown, ensure_ascii=False)


def test_known_secret_is_hidden_as_a_name_and_as_a_number() -> None:
    secrets = KnownSecrets(["12345678", "topsecretname"])
    assert hidden({"topsecretname": 12345678, "n": 1}, secrets=secrets) == {MARK: MARK, "n": 1}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"password": "hunter2", "x": 1}', f'{{"password": "{MARK}", "x": 1}}'),
        ('{\\"token\\":\\"abc\\"}', f'{{\\"token\\":\\"{MARK}\\"}}'),
        ("https://x.example/?access_token=abc&x=1", f"https://x.example/?access_token={MARK}&x=1"),
        ("https://user:pw@x.example/", f"https://{MARK}@x.example/"),
        ("Authorization: Bearer abcdefghijklmnop", f"Authorization: Bearer {MARK}"),
    ],
)
def test_secrets_inside_a_text_are_hidden(text: str, shown: str) -> None:
    assert hidden({"text": text}) == {"text": shown}


def test_short_secrets_are_not_searched_for_and_no_secret_is_shown_by_repr() -> None:
    assert not KnownSecrets(["a", "abc"])
    assert SECRET not in repr(KnownSecrets([SECRET]))
    assert redact({"a": "abc"}, Rules(secrets=KnownSecrets(["abc"]))).text == '{"a":"abc"}'


def test_large_message_is_cut_to_json_within_the_limit_and_marked() -> None:
    message: JSONValue = {"id": 7, "result": {"text": "ä" * 500_000, "after": 1}}
    result = redact(message, Rules(limit=10_000), size=1_000_100)
    assert len(result.text.encode()) <= 10_000
    assert result.truncated
    assert content(result)["id"] == 7
    assert content(result)["result"]["text"].endswith(CUT)


def test_long_lists_and_objects_are_cut_too() -> None:
    message: JSONValue = {"list": list(range(100_000)), "map": {str(n): n for n in range(10_000)}}
    result = redact(message, Rules(limit=1000))
    assert len(result.text) <= 1000
    assert result.truncated
    assert content(result)["list"][:3] == [0, 1, 2]


def test_deep_message_is_cut_at_64_levels() -> None:
    message: JSONValue = "bottom"
    for _ in range(100_000):
        message = [message]
    result = redact(message)
    assert result.text == "[" * DEEPEST + json.dumps(CUT, ensure_ascii=False) + "]" * DEEPEST
    assert result.truncated


def test_message_of_64_levels_is_kept_whole() -> None:
    message: JSONValue = 1
    for _ in range(DEEPEST):
        message = {"a": message}
    assert redact(message).truncated is False


def test_odd_values_become_storable_json() -> None:
    message: JSONValue = {
        "nul": "a\0b",
        "lone": "\ud800",
        "nan": float("nan"),
        "inf": [float("inf"), float("-inf")],
        "huge": 10 ** (sys.get_int_max_str_digits() + 10),
    }
    result = redact(message)
    result.text.encode()
    assert "\0" not in result.text
    shown = content(result)
    assert shown["nul"] == "a\0b"
    assert shown["lone"] == "\\ud800"
    assert shown["nan"] == "nan"
    assert shown["inf"] == ["inf", "-inf"]
    assert shown["huge"].startswith("[integer of ")


def test_bytes_that_are_no_json_become_a_string() -> None:
    raw = b"HTTP/1.1 \xff\x00 Bearer abcdefghijklmnop " + SECRET.encode()
    result = redact_raw(raw, Rules(secrets=KnownSecrets([SECRET])))
    assert content(result) == f"HTTP/1.1 \\xff\0 Bearer {MARK} {MARK}"
    assert redact_raw(b"x" * 5000, Rules(limit=100)).truncated


@pytest.mark.parametrize(
    "text",
    [
        "token" * 50_000,
        'token"' * 50_000,
        "://" + ":" * 200_000 + "@",
        "basic " * 40_000,
        'secret": "' * 25_000,
        "password=" * 25_000,
        '\\"' * 100_000 + "token",
    ],
)
def test_text_made_to_slow_the_search_down_takes_linear_time(text: str) -> None:
    began = time.process_time()
    redact({"text": text, "token": "x"})
    assert time.process_time() - began < 2.0


@given(json_values)
@settings(max_examples=200)
def test_any_message_leaves_storable_json_within_the_limit(message: Any) -> None:
    result = redact(message, Rules(limit=200, secrets=KnownSecrets(["aaaa", "1234"])))
    assert len(result.text.encode()) <= 200 + len(CUT.encode()) + 8
    assert "\0" not in result.text
    json.loads(result.text)


@given(json_values)
def test_message_without_anything_telling_is_kept_as_it_is(message: Any) -> None:
    result = redact(message)
    whole = json.dumps(message)
    if not (result.redacted or result.truncated or "NaN" in whole or "Infinity" in whole):
        cleaned = json.loads(json.dumps(message, ensure_ascii=False).encode("utf-8", "replace"))
        shown = json.dumps(content(result)).encode("utf-8", "replace")
        assert cleaned == message or b"\\\\ud" in shown


@given(st.text(min_size=8, max_size=40), st.text(max_size=20), st.text(max_size=20))
def test_known_secret_never_survives_in_a_text(secret: str, before: str, after: str) -> None:
    result = redact(
        {"a": before + secret + after, "b": [secret]}, Rules(secrets=KnownSecrets([secret]))
    )
    assert result.redacted
    assert content(result)["b"] == [MARK]


@given(st.sampled_from(["password", "api-key", "access_token", "Set-Cookie", "clientSecret"]))
def test_telling_name_makes_the_whole_message_suspicious(name: str) -> None:
    assert is_telling(name)
    assert is_telling_text(json.dumps({name: 1}))


@given(st.text())
def test_column_text_fits_and_is_storable(text: str) -> None:
    short = storable(text, 20)
    assert len(short) <= 20
    assert "\0" not in short
    short.encode()
