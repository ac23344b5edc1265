"""YAML files that are hostile, or larger than anything that a person writes."""

from pathlib import Path

import pytest

from app.bounded_yaml import MAX_BYTES, MAX_DEPTH, InvalidYaml, read_yaml

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
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.timeout(5)
def test_a_hostile_file_is_refused_in_one_line(tmp_path: Path, kind: str):
    """A file that expands without end, is nested deeply, is too large or no YAML is refused with its place."""
    text, fault = HOSTILE[kind]
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(InvalidYaml) as caught:
        read_yaml(tmp_path / "a.yaml")
    assert fault in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_people_write_is_read(tmp_path: Path):
    """Aliases, merges and as many levels as are allowed are read."""
    text = "base: &base {a: 1}\nmade: {<<: *base, b: *base}\ndeep: " + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1)
    (tmp_path / "a.yaml").write_text(text)
    found = read_yaml(tmp_path / "a.yaml")
    assert found["made"] == {"a": 1, "b": {"a": 1}}
