"""The incremental parser of server-sent events."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.upstream.sse_parser import OVERSIZED, EventTooLargeError, SseEvent, SseParser

STREAM = (
    b"\xef\xbb\xbf: hello\r\n\r\nid: 7\ndata: one\ndata:two\n\n"
    b"event: ping\rdata: x\r\r\n: c\nretry: 1500\nid\ndata\n\n"
)
EVENTS = [SseEvent("message", b"one\ntwo"), SseEvent("ping", b"x"), SseEvent("message", b"")]


def feed_all(parser: SseParser, chunks: list[bytes]) -> list[SseEvent]:
    return [event for chunk in chunks for event in parser.feed(chunk)]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_events_are_the_same_wherever_the_chunks_break(cuts: list[int]) -> None:
    parser = SseParser(1000)
    edges = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[a:b] for a, b in pairwise(edges)]
    assert feed_all(parser, chunks) == EVENTS
    assert (parser.last_event_id, parser.retry_ms) == ("", 1500)


def test_e05_priming_event_sets_the_id_and_comments_are_nothing() -> None:
    parser = SseParser(1000)
    assert parser.feed(b": c\n\nid: a\ndata:\n\n") == [SseEvent("message", b"")]
    assert parser.last_event_id == "a"


@pytest.mark.parametrize("line", [b"id: a\0b", "id: \u00e9".encode(), b"id: " + b"x" * 2000])
def test_id_that_no_header_can_hold_is_ignored(line: bytes) -> None:
    parser = SseParser(10_000)
    parser.feed(b"id: good\n\n" + line + b"\n\n")
    assert parser.last_event_id == "good"


@pytest.mark.parametrize("chunk", [b"data: " + b"x" * 600, b"data: " + b"x" * 100 + b"\n"])
def test_p03_event_over_its_cap_is_refused_before_it_ends(chunk: bytes) -> None:
    parser = SseParser(1000)
    with pytest.raises(EventTooLargeError):
        feed_all(parser, [chunk] * 20)


def test_p03_stream_over_its_cap_is_refused() -> None:
    parser = SseParser(1000, 5000)
    with pytest.raises(EventTooLargeError):
        feed_all(parser, [b": " + b"c" * 98 + b"\n"] * 100)


def test_many_events_over_the_event_cap_together_are_fine() -> None:
    parser = SseParser(1000)
    events = [event for _ in range(100) for event in parser.feed(b"data: " + b"x" * 90 + b"\n\n")]
    assert len(events) == 100


@given(st.integers(1, 300))
def test_oversized_event_is_skipped_whole_and_the_next_one_is_read(step: int) -> None:
    parser = SseParser(1000, may_skip=True)
    raw = b"data: " + b"y" * 2500 + b"\ndata: z\n\ndata: after\n\n"
    events = [e for i in range(0, len(raw), step) for e in parser.feed(raw[i : i + step])]
    assert events == [SseEvent(OVERSIZED, b""), SseEvent("message", b"after")]
