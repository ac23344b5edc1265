"""Documents that say where things are say it of the tree as it stands."""

import re
import tomllib

from tests.sources import ROOT

ARCHITECTURE = (ROOT / "docs/architecture.md").read_text("utf-8")
PLACES = ARCHITECTURE.split("## Where to put a new thing", 1)[1]
PATH = re.compile(r"`([a-z_]+/[\w/.-]*)`")
NAMED = re.compile(r"`(\w+)` (?:in|of|\()\s?\(?`([\w/.-]+\.\w+)`")


def test_a_new_thing_has_the_place_that_the_table_names():
    """Each file and folder of the table is there; a file has the name that is said to be in it."""
    paths = PATH.findall(PLACES)
    assert len(paths) > 30
    missing = [path for path in paths if not any((ROOT / base / path).exists() for base in ("", "agent_core"))]
    assert not missing
    named = NAMED.findall(PLACES)
    assert len(named) > 8
    unknown = [(word, path) for word, path in named if not re.search(rf"\b{word}\b", _text(path))]
    assert not unknown


def test_the_layers_of_the_core_are_those_of_the_contract():
    """Decision 5 has a row for each layer that `lint-imports` reads, with the same rooms, in the same order."""
    contracts = tomllib.loads(_text("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each.get("containers") == ["agent_core"])
    rows = re.findall(r"^\| (`.*?`) \|", _text("docs/decisions/0005-layout-of-agent-core.md"), re.MULTILINE)
    assert [re.findall(r"`(\w+)`", row) for row in rows] == [re.split(r" [|:] ", layer) for layer in layers]


def test_each_decision_is_in_the_list_under_its_title():
    """The list of decisions has each page once, by the title that the page itself has."""
    folder = ROOT / "docs/decisions"
    listed = dict(re.findall(r"\[(.+?)\]\((\d{4}-[\w-]+\.md)\)", _text("docs/decisions/README.md")))
    pages = {each.name: each.read_text("utf-8").split("\n", 1)[0] for each in folder.glob("[0-9]*.md")}
    assert {page: f"# {int(page[:4])}. {title}" for title, page in listed.items()} == pages


def test_each_walk_names_the_files_on_its_way():
    """A file of a walk has the name at which it begins, is in it once, and the heading says how many there are."""
    walks = _text("docs/walks.md").split("\n## ")[1:]
    assert len(walks) == 4
    for walk in walks:
        title, rows = walk.split("\n", 1)[0], re.findall(r"^\| `(.+?)` \| `(\w+)` \|", walk, re.MULTILINE)
        files = [path for path, _ in rows]
        assert (len(set(files)), f"{len(files)} files" in title) == (len(files), True), title
        absent = [each for each in rows if not re.search(rf"(?:def|class) {each[1]}\b", _text(each[0]))]
        assert not absent


def _text(path: str) -> str:
    return (ROOT / path).read_text("utf-8")
