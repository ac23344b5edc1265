"""The scan of bodies as they arrive: exact for JSON however it is cut, and quick for what is none."""

import json
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.body import MAX_VALUES, Scan
from tests.cases import for_each

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='"\\[]{},:ab\n🦊'),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet='"\\[{,'), inner, max_size=4),
    max_leaves=20,
)
HOSTILE = {
    "lists": (b"[" * 11_000 + b"]" * 11_000, "deep"),
    "objects": (b'{"a":' * 11_000, "deep"),
    "values": (b"[" + b"1," * 400_000, "many"),
    "empty lists": (b"[" + b"[]," * 130_000, "many"),
    "closings": (b"]" * 400_000, "unbalanced"),
    "quotes": (b'"' * 400_000, None),
    "backslashes": (b'"' + b"\\" * 400_000, None),
    "escaped quotes": (b'"' + b'\\"' * 200_000, None),
    "a text": (b'"' + b"x" * 400_000 + b'"', None),
}


def figures(value: object) -> tuple[int, int]:
    """Return how deep *value* is, and how many commas and openings its JSON has."""
    if not isinstance(value, dict | list):
        return 0, 0
    inner = [figures(each) for each in (value.values() if isinstance(value, dict) else value)]
    commas = max(0, len(value) - 1)
    return 1 + max((deep for deep, _ in inner), default=0), 1 + commas + sum(count for _, count in inner)


@given(JSON, st.lists(st.integers(0, 200), max_size=6))
def test_depth_and_number_are_exact_wherever_the_body_is_cut(value, cuts):
    """Brackets in texts, escapes and the borders between two pieces change nothing."""
    text, (deep, many) = json.dumps(value, ensure_ascii=False).encode(), figures(value)
    borders = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    pieces = [text[begin:end] for begin, end in pairwise(borders)]
    scan = Scan(max_depth=deep, max_values=many)
    assert [scan.feed(piece) for piece in pieces] == [None] * len(pieces)
    assert scan.values == many
    if deep:
        strict = Scan(max_depth=deep - 1)
        assert "deep" in [strict.feed(piece) for piece in pieces]


@pytest.mark.whole
@for_each("kind", HOSTILE)
def test_no_body_takes_the_loop_for_long(kind: str):
    """Eleven thousand nested lists, or 400 kB of anything, take a few milliseconds of a processor in all."""
    body, excess = HOSTILE[kind]
    took = []
    for _ in range(3):
        began = time.process_time()
        assert Scan().feed(body) == excess
        took.append(time.process_time() - began)
    assert min(took) < 0.03, took  # on a slow machine; about 3 ms on this year's


def test_the_bound_on_values():
    """As many values as are allowed pass, one more does not."""
    assert Scan().feed(json.dumps([1] * MAX_VALUES).encode()) is None
    assert Scan().feed(json.dumps([1] * (MAX_VALUES + 1)).encode()) == "many"
