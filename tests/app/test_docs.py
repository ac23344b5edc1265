"""The documents: what they point at is there."""

import re

from tests.cases import for_each
from tests.postgres import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)")
CODE = re.compile(r"(?ms)^\s*```.*?^\s*```")


@for_each("page", PAGES)
def test_every_link_leads_somewhere(page):
    """A relative link in a document names a file or folder that exists."""
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    missing = [link for link in LINK.findall(text) if not (page.parent / link).exists()]
    assert not missing


def test_every_decision_is_in_the_index():
    """The index of decisions names each page."""
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in folder.glob("0*.md") if f"]({page.name})" not in index] == []
