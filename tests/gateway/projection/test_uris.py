"""Public URIs: valid, reversible, apart for every two servers, and templates that commute."""

from __future__ import annotations

import re

import pytest
import uritemplate
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import AnyUrl, TypeAdapter

from gateway.projection.uris import Origin, origin_of, public_template, public_uri
from tests.gateway.projection.strategies import slugs

words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
uri_like = st.one_of(
    st.text(),
    st.text(st.characters(codec="utf-8")).map("ui://{}".format),
    st.from_regex(r"[a-z]{1,6}:[a-z0-9/.%#?\[\]~!-]{0,20}", fullmatch=True),
    st.sampled_from(
        [
            "",
            "ui://",
            "UI://x",
            "urn:isbn:0451450523",
            "data:text/plain;base64,SGk=",
            "file:///a/../b",
            "http://[::1]:8080/x",
            "a#b#c",
            "50%",
            "mcphub://other/file:///a",
            "https://example.com/" + "x" * 5000,
            "note://käse\x00\ud800",
        ]
    ),
)
RFC3986 = re.compile(
    r"[a-z]+://[A-Za-z0-9._~-]+(/(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*)?"
    r"(\?(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2})*)?"
    r"(#(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2})*)?"
)


@given(slugs, uri_like)
def test_a_public_uri_leads_back_to_its_server_and_uri(server: str, uri: str) -> None:
    assert origin_of(public_uri(server, uri)) == Origin(server, uri)


@given(slugs, uri_like)
def test_a_public_uri_is_valid(server: str, uri: str) -> None:
    assert RFC3986.fullmatch(public_uri(server, uri))


@given(slugs, uri_like)
def test_a_public_uri_survives_a_client_that_parses_uris(server: str, uri: str) -> None:
    public = public_uri(server, uri)
    assert str(TypeAdapter(AnyUrl).validate_python(public)) == public


@given(slugs, slugs, uri_like, uri_like)
def test_different_resources_have_different_public_uris(
    one: str, other: str, first: str, second: str
) -> None:
    is_same = public_uri(one, first) == public_uri(other, second)
    assert is_same == ((one, first) == (other, second))


@given(slugs, uri_like)
def test_user_interfaces_and_only_they_keep_their_scheme(server: str, uri: str) -> None:
    assert public_uri(server, uri).startswith("ui://") == uri.startswith("ui://")


@given(
    slugs,
    st.sampled_from(
        [
            "file:///{path}",
            "file:///{+path}",
            "{+path}",
            "ui://{path}",
            "ui://cards/{path}{?q,path}",
            "~{path}",
            "note://n{/path*}{;q}{#q}",
            "urn:x:{path:3}.{q}",
            "plain://no/variable",
        ]
    ),
    words,
    words,
)
@example("docs", "ui://{path}", "~a", "q")
def test_expanding_a_public_template_leads_to_what_the_own_template_gives(
    server: str, template: str, path: str, query: str
) -> None:
    expanded = uritemplate.expand(public_template(server, template), path=path, q=query)
    own = uritemplate.expand(template, path=path, q=query)
    assert origin_of(expanded) == Origin(server, own)


@given(slugs, uri_like)
def test_a_public_template_leads_back_too(server: str, template: str) -> None:
    assert origin_of(public_template(server, template)) == Origin(server, template)


@pytest.mark.parametrize(
    "foreign", ["", "file:///a", "mcphub://", "mcphub://Docs/a", "ui://docs", "mcphub://docs.x/a"]
)
def test_what_the_hub_never_showed_leads_nowhere(foreign: str) -> None:
    assert origin_of(foreign) is None
