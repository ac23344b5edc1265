"""Server-sent events as bytes: any way a server writes them, and any way the network cuts them."""

import pytest

from agent_core.net.sse import EventSplitter, EventTooLarge
from tests.cases import for_each

STREAMS = {
    "plain": (b"data: one\n\ndata: two\n\n", [b"one", b"two"]),
    "no space": (b"data:one\n\ndata:two\n\n", [b"one", b"two"]),
    "names, ids and pauses": (b"event: x\nid: 7\nretry: 10\ndata: one\n\n", [b"one"]),
    "data before its name": (b"data: one\nevent: x\n\n", [b"one"]),
    "comments": (b": ping\n\n:\n\n: data: no\ndata: one\n\n", [b"one"]),
    "a name with data in it": (b"event: metadata: x\ndata: one\n\n", [b"one"]),
    "only a name with data in it": (b"event: metadata: x\n\ndata: one\n\n", [b"one"]),
    "many lines": (b"data: one\ndata: two\n\ndata:\ndata: three\n\n", [b"one\ntwo", b"three"]),
    "windows": (b"data: one\r\n\r\nevent: x\r\ndata: two\r\n\r\n", [b"one", b"two"]),
    "old macs": (b"data: one\r\rdata: two\r\r", [b"one", b"two"]),
    "mixed ends": (b"data: one\r\n\ndata: two\n\r\n", [b"one", b"two"]),
    "empty data": (b"data:\n\ndata: \n\ndata: one\n\n", [b"one"]),
    "many blank lines": (b"\n\n\n\ndata: one\n\n\n\n\ndata: two\n\n\n", [b"one", b"two"]),
    "no blank line at the end": (b"data: one\n\ndata: two", [b"one", b"two"]),
    "one line end at the end": (b"data: one\n\ndata: two\r", [b"one", b"two"]),
    "characters of several bytes": ("data: é👀\r\n\r\ndata: …\n\n".encode(), ["é👀".encode(), "…".encode()]),
    "one JSON object": (b' {"a": 1}\n', [b'{"a": 1}']),
    "a JSON object over many lines": (b'{\r\n  "data: x": 1\r\n}\r\n', [b'{\n  "data: x": 1\n}']),
    "a page": (b"<html>\n<p>data: no</p></html>", []),
    "nothing": (b"", []),
}


def read(data: bytes, *cuts: int) -> list[bytes]:
    """Return the events of *data*, read in pieces that end at *cuts*."""
    frames = EventSplitter()
    pieces = zip((0, *cuts), (*cuts, len(data)), strict=True)
    found = [event for begin, end in pieces for event in frames.feed(data[begin:end])]
    return [*found, *frames.end()]


@for_each("case", STREAMS)
def test_events_are_read_however_they_are_cut(case):
    """The data of each event comes out once, in order, wherever the network cut the stream."""
    data, events = STREAMS[case]
    assert read(data) == events
    assert read(data, *range(1, len(data))) == events
    for cut in range(1, len(data)):
        assert read(data, cut) == events, cut


def test_an_event_comes_with_its_last_byte():
    """What is whole does not wait for the next read."""
    frames = EventSplitter()
    assert frames.feed(b"data: one\n\ndata: tw") == [b"one"]
    assert frames.feed(b"o\r\n\r") == []
    assert frames.feed(b"\ndata") == [b"two"]
    assert frames.end() == []


@for_each("end", [b"\n\n", b"\r\n\r\n", b""])
def test_a_long_event_is_read_in_pieces(end):
    """An event of a megabyte in pieces of a kilobyte, with an end of any kind, is one event."""
    first, second = b"x" * 1_000_000, b"y" * 200_000
    data = b"data: " + first + b"\n\n: " + b"z" * 100_000 + b"\ndata: " + second + end
    assert read(data, *range(1000, len(data), 1000)) == [first, second]


def test_an_end_is_reported_once():
    """The rest of a stream is given out once."""
    frames = EventSplitter()
    frames.feed(b"data: one")
    assert (frames.end(), frames.end()) == ([b"one"], [])


def test_an_event_without_end_is_refused(monkeypatch):
    """A server that never ends a line cannot fill the memory; many events of allowed size can pass."""
    monkeypatch.setattr("agent_core.net.sse.MAX_EVENT", 100)
    frames = EventSplitter()
    for _ in range(50):
        assert frames.feed(b"data: " + b"x" * 60 + b"\n\n") == [b"x" * 60]
    frames.feed(b"data: " + b"x" * 60)
    with pytest.raises(EventTooLarge):
        frames.feed(b"x" * 60)


def test_whole_events_keep_their_lines():
    """An event is given with its name and its id, with plain line ends, once its last byte has come."""
    frames = EventSplitter()
    assert frames.split(b"id: 7\r\nevent: x\r\ndata: o") == []
    assert frames.split(b"ne\r\n\r\n: ping\n\n") == [b"id: 7\nevent: x\ndata: one", b": ping"]
