"""YAML files that are hostile, or larger than anything that a person writes."""

from pathlib import Path

import pytest

from app.bounded_yaml import MAX_BYTES, MAX_DEPTH, InvalidYaml, parse_yaml, read_yaml
from tests.cases import for_each

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
HOSTILE = {
    "aliases": (LAUGHS, "line 5: more than 20,000 values"),
    "lists": ("[" * 5_000, "line 1: nested more than 64 levels deep"),
    "mappings": ("{a: " * 5_000, "line 1: nested more than 64 levels deep"),
    "indents": ("".join(" " * level + "a:\n" for level in range(700)), "line 65: nested more than 64 levels deep"),
    "itself": ("a: &a [*a]", "repeats itself"),
    "size": ("#" * MAX_BYTES + "\n", "more than 256,000 bytes"),
    "a date": ("when: 2026-13-45", "month must be in 1..12"),
    "a number": ("much: " + "9" * 5_000, "limit"),
    "no YAML": ("a: [", "line 1: "),
    "a clock": ("much: 1" + ":1" * 120_000, "line 1: a number of 240,001 characters, the limit is 100"),
    "a clock with a part": ("\nmuch: -1" + ":1" * 180 + ".5", "line 2: a number of"),
    "bits": ("much: 0b" + "1" * 250_000, "a number of"),
    "a hexadecimal": ("much: 0x" + "f" * 250_000, "a number of"),
    "no bool": ("a: !!bool x", "line 1: the tag `tag:yaml.org,2002:bool`"),
    "no time": ("a: !!timestamp x", "the tag"),
    "no int": ("a: !!int ''", "the tag"),
    "a set": ("a:\n  !!set [x]", "line 2: the tag"),
    "a tagged mapping": ("!!map {a: 1}", "the tag"),
    "an object": ("a: !!python/object:os.system x", "the tag"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_refused_in_one_line(tmp_path: Path, kind: str):
    """A file that expands without end, is nested deeply, is too large or no YAML is refused with its place."""
    text, fault = HOSTILE[kind]
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(InvalidYaml) as caught:
        read_yaml(tmp_path / "a.yaml")
    assert fault in str(caught.value)
    assert "\n" not in str(caught.value)


@for_each("text", ["0123456789abcdef" * 8, "words that go on " * 20, "2026-11-23 " * 30, "1.2.3 " * 40])
def test_long_texts_without_quotes_are_read(text: str):
    """Hashes, dates and sentences of any length are no numbers."""
    assert parse_yaml(f"a: {text.strip()}") == {"a": text.strip()}


def test_what_people_write_is_read(tmp_path: Path):
    """Aliases, merges and as many levels as are allowed are read."""
    text = "base: &base {a: 1}\nmade: {<<: *base, b: *base}\ndeep: " + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1)
    (tmp_path / "a.yaml").write_text(text)
    found = read_yaml(tmp_path / "a.yaml")
    assert found["made"] == {"a": 1, "b": {"a": 1}}
