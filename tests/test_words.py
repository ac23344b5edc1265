"""Words that this repository does not use: each has a standard term, and one list for names and prose alike.

`python -m tests.test_words` lists how often each folder still uses them.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.cases import for_each
from tests.sources import ROOT, name, walk

SUFFIXES = {".py", ".ts", ".tsx", ".md"}
GENERATED = "static"
"""The folder of what is built; what else is generated `walk` leaves out."""

BANNED = (
    ("told", "notified, returned, reported, given"),
    ("heard", "received, subscribed"),
    ("rung", "woken, notified"),
    ("nobody", "no one, no user, no process, nothing"),
    ("somebody", "someone, a user"),
    ("whoever", "the caller, the reader, the process that"),
    ("anew", "again, from the start"),
    ("vain", "without result, without effect"),
    ("untaken", "pending, unclaimed, available"),
    ("owed", "pending, due, still to be sent"),
    ("behind", "after, for, in"),
    ("mend", "fix, repair"),
    ("mends", "fixes, repairs"),
    ("mended", "fixed, repaired"),
    ("naught", "nothing, zero"),
    ("hence", "so, therefore"),
    ("whence", "from where"),
    ("thereof", "of it"),
    ("lest", "so that … not"),
    ("clash", "conflict"),
    ("clashes", "conflicts"),
    ("hiccup", "error, short outage"),
    ("tell whether", "return whether"),
    ("tells whether", "returns whether"),
    ("test who", "a test named after its subject: test_cancelled_waiter_releases_its_slot"),
)
"""Each word, or pair of words in a row, with what to write instead. A name counts as the words it consists of."""

PHRASES = (
    "behind a proxy",
    "behind a reverse proxy",
    "core behind every place",
    "falls behind",
    "leave behind",
    "leave nothing behind",
    "leaves nothing behind",
    "left behind",
)
"""Uses of a banned word that are plain English."""

ALLOWED = (
    ("tests/test_words.py", {term for term, _ in BANNED}, "lists them"),
    ("docs/operations.md", {"rung"}, "the stored value, as a label of a metric"),
    ("docs/glossary.md", {"behind", "nobody", "whoever"}, "says that they are not used"),
    ("agent_core/store/hub.py", {"behind"}, "a reader that lags"),
    ("agent_core/store/reading/follow.py", {"behind"}, "a reader that lags"),
    ("agent_core/store/postgres/bus.py", {"behind"}, "a process that lags"),
    ("agent_core/store/postgres/incoming.py", {"behind"}, "a process that lags"),
    ("tests/agent_core/store/postgres/test_bus_flushes.py", {"behind"}, "a process that lags"),
    ("tests/agent_core/store/reading/test_slow_readers.py", {"behind"}, "a reader that lags"),
    ("app/doctor/postgres.py", {"behind"}, "a clock that lags"),
    ("agent_core/store/work/runs.py", {"rung"}, "a stored value"),
    ("agent_core/counters.py", {"rung"}, "the stored value, as a label of a metric"),
)
"""Files that may use some of them, and why."""

VAGUE = "found|given|known|said|kept|asked|took"
"""Participles that say how a value came about, not what it is: write `match`, `arguments`, `existing`, `message` …"""
BOUND = re.compile(
    rf"^\s*(?:{VAGUE})(?:: [^=]+)? = (?!Field\()|\bfor (?:{VAGUE}) in |[(,] ?(?:{VAGUE}): |\blambda (?:{VAGUE})\b"
    rf"|\((?:{VAGUE}) :="
)
"""A variable or a parameter with such a name."""
LIMIT = re.compile(r"^(?:_?[A-Z_]+, )*_?(?:MOST|LONGEST|LEAST|LARGEST)(?:_[A-Z_]+)?(?:, _?[A-Z_]+)* = ")
"""A bound that is not `MAX_…` or `MIN_…`."""
LABELLED = re.compile(r'"""[a-z_]+: ')
PLAIN = re.compile(r"(?:agent_core|app|channels|migrations|parley|scripts)/(?!tools/mcp/)")
"""Where names are so; the other folders follow."""


class Use(NamedTuple):
    """A banned term in a file of the repository."""

    path: str
    line: int
    term: str


def test_plain_words():
    """Names, comments, messages and documents use the standard terms of the field."""
    replacements = dict(BANNED)
    bad = [f"{use.path}:{use.line} {use.term!r}: write {replacements[use.term]}" for use in uses() if not allowed(use)]
    assert not bad, f"{len(bad)} uses of banned words:\n" + "\n".join(bad)


def test_allowed_words_are_in_use():
    """A file is listed as allowed to use a word only while it uses it."""
    used = {(use.path, use.term) for use in uses()}
    unused = [(path, term) for path, terms, _ in ALLOWED for term in sorted(terms) if (path, term) not in used]
    assert not unused, f"remove these from ALLOWED: {unused}"


def test_names_say_what_a_value_is():
    """Variables and parameters are nouns."""
    bad = [f"{path}:{number} {line.strip()}" for path, number, line in lines_of_code() if names_vaguely(path, line)]
    assert not bad, "\n".join(bad)


def test_bounds_say_that_they_are():
    """Bounds begin with `MAX_` or `MIN_`, in the tests too."""
    bad = [f"{path}:{number} {line.strip()}" for path, number, line in lines_of_code() if LIMIT.match(line)]
    assert not bad, "\n".join(bad)


def test_modules_open_with_a_sentence():
    """The docstring of a module says what it is; its name is above it already."""
    bad = [f"{path} {line}" for path, number, line in lines_of_code() if number == 1 and LABELLED.match(line)]
    assert not bad, "\n".join(bad)


@for_each(
    "line",
    ["found = f(x)", "    kept: list[str] = []", "for given in values", "def f(a, known: int)"],
)
def test_a_vague_name_is_found(line: str):
    """A name is seen where it is bound: by an assignment, a loop or a parameter."""
    assert BOUND.search(line)


@for_each("line", ["MOST_FILES = 3", "_LONGEST = 4.0", "MAX_A, MOST_B = 1, 2", "MOST_A, MAX_B = 1, 2"])
def test_a_bound_by_another_name_is_found(line: str):
    """A bound is seen alone and beside others."""
    assert LIMIT.match(line)


@for_each(
    "text, found",
    [
        ("def was_told(): ...", [(1, "told")]),
        ("class ToldTwice:", [(1, "told")]),
        ("RUNG_AT = 1", [(1, "rung")]),
        ("Nobody waits.", [(1, "nobody")]),
        ("It tells\n    # whether it ran.", [(1, "tells whether")]),
        ("def test_who_leaves(): ...", [(1, "test who")]),
        ("one\ntwo, anew\n", [(2, "anew")]),
        ("It runs behind\na reverse proxy, behind it.", [(2, "behind")]),
        ("test_readers_leave_nothing_behind", []),
        ("borrowed, wrung, vainly, retold, allowed", []),
    ],
)
def test_words_are_found(text: str, found: list[tuple[int, str]]):
    """Words are found in snake case, camel case, capitals and prose, and across the end of a line; not within words."""
    assert list(find(text)) == found


@cache
def uses() -> tuple[Use, ...]:
    """Return each use of a banned term, allowed or not, by file and line."""
    first = [term.split()[0] for term, _ in BANNED]
    texts = ((name(path), path.read_text("utf-8")) for path in sources())
    suspect = ((path, text) for path, text in texts if any(word in text.lower() for word in first))
    return tuple(Use(path, line, term) for path, text in suspect for line, term in find(text))


def sources() -> Iterator[Path]:
    """Yield each file with one of the suffixes that we wrote."""
    for path in sorted(walk(ROOT)):
        if path.suffix in SUFFIXES and GENERATED not in path.relative_to(ROOT).parts:
            yield path


def lines_of_code() -> Iterator[tuple[str, int, str]]:
    """Yield the path, the number and the text of each line of our Python files."""
    for path in sources():
        if path.suffix == ".py":
            place = name(path)
            for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
                yield place, number, line


def names_vaguely(path: str, line: str) -> bool:
    """Return whether a line gives a value a participle for a name, where names are nouns already."""
    return PLAIN.match(path) is not None and BOUND.search(line) is not None


def find(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the term of each banned term in a text, in order, outside of allowed phrases."""
    terms = {term for term, _ in BANNED}
    found = [(number, word.lower()) for number, each in enumerate(text.splitlines(), 1) for word in words(each)]
    spelled = [word for _, word in found]
    previous = ("", 0)
    for at, (line, word) in enumerate(found):
        if word in terms and not is_in_phrase(spelled, at):
            yield line, word
        if (pair := f"{previous[0]} {word}") in terms:
            yield previous[1], pair
        previous = (word, line)


def is_in_phrase(spelled: list[str], at: int) -> bool:
    """Return whether the word *at* is part of an allowed phrase."""
    phrases = (phrase.split() for phrase in PHRASES if spelled[at] in phrase)
    return any(
        phrase == spelled[max(start, 0) : start + len(phrase)]
        for phrase in phrases
        for start in range(at - len(phrase) + 1, at + 1)
    )


def words(line: str) -> list[str]:
    """Return the words of a line; a name is split at underscores and at capitals."""
    return re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", line)


def allowed(use: Use) -> bool:
    """Return whether a file is listed as allowed to use a term."""
    return any(use.path == path and use.term in terms for path, terms, _ in ALLOWED)


def counts() -> Counter[str]:
    """Count the uses that are not allowed, by folder."""
    return Counter(str(Path(use.path).parent) for use in uses() if not allowed(use))


if __name__ == "__main__":
    for folder, count in sorted(counts().items()):
        print(f"{count:5} {folder}")
