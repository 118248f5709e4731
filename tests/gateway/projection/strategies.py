"""What property tests of the projection draw from."""

from __future__ import annotations

from hypothesis import strategies as st

slugs = st.from_regex(r"[a-z][a-z0-9]{0,3}(?:[_-][a-z0-9]{1,2})?", fullmatch=True)
