"""How the page draws blocks: as a tree of elements that it knows, without anything executable."""

import re
from collections.abc import Iterator
from importlib import resources
from typing import Any

from channels.slack.testing.blocks import check
from channels.slack.testing.shown import Drawing, drawn


def plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text}


def rich(text: str, kind: str = "rich_text_section") -> dict[str, Any]:
    return {"type": "rich_text", "elements": [{"type": kind, "elements": [{"type": "text", "text": text}]}]}


CELLS = [[{"type": "raw_text", "text": text} for text in row] for row in (("Region", "Sum"), ("North", "12"))]
BUTTON = {"type": "button", "action_id": "go", "text": plain("Go"), "value": "v"}
SERIES = [{"name": "Web", "data": [{"label": "Q1", "value": 10}]}]
LINES = [rich("inner")["elements"][0]]
LIST = {
    "type": "rich_text",
    "elements": [{"type": "rich_text_list", "style": "bullet", "indent": 1, "elements": LINES}],
}
BLOCKS = [
    {"type": "markdown", "text": "# Title\n\n- [ ] **one** `two`\n\n> ~~three~~\n\n| a |\n| -: |\n| b |\n\n[x](https://example.com)"},
    {"type": "section", "text": {"type": "mrkdwn", "text": "*bold* _it_ ~no~ `code` <@UANN> <https://example.com|here>"}},
    {"type": "section", "fields": [plain("field")], "accessory": BUTTON | {"action_id": "other"}},
    {"type": "header", "text": plain("Heading")},
    {"type": "divider"},
    {"type": "context", "elements": [plain("small print")]},
    {"type": "actions", "elements": [BUTTON]},
    rich("plain words"),
    rich("select 1", "rich_text_preformatted"),
    rich("said he", "rich_text_quote"),
    LIST,
    {"type": "table", "rows": CELLS, "column_settings": [None, {"align": "right"}]},
    {"type": "data_table", "caption": "Sums", "rows": CELLS},
    {
        "type": "data_visualization",
        "title": "Users",
        "chart": {"type": "line", "series": SERIES, "axis_config": {"categories": ["Q1"]}},
    },
    {"type": "task_card", "task_id": "1", "title": "Look", "status": "complete", "output": rich("found")},
    {"type": "image", "alt_text": "A chart", "image_url": "https://example.com/a.png"},
]  # fmt: skip


def tags(nodes: list[Any]) -> Iterator[str]:
    for node in nodes:
        if not isinstance(node, str):
            yield node[0]
            yield from tags(node[2])


def words(nodes: list[Any]) -> str:
    return " ".join(node if isinstance(node, str) else words(node[2]) for node in nodes)


def test_every_block_is_drawn_with_what_the_page_knows():
    """Blocks that Slack takes are drawn, and each element is one that the page builds."""
    assert check(BLOCKS) == []
    page = resources.files("channels.slack.testing").joinpath("page.html").read_text("utf-8")
    sets = re.findall(r"const (?:PLAIN|BOXES) = new Set\(\[(.*?)\]\)", page)
    known = {each.strip(' "') for found in sets for each in found.split(",")} | set(re.findall(r'case "(\w+)":', page))
    nodes = Drawing({"UANN": "ann"}).blocks(BLOCKS)
    assert set(tags(nodes)) <= known
    said = words(nodes)
    for word in (
        "Title",
        "bold",
        "@ann",
        "here",
        "field",
        "Heading",
        "small print",
        "select 1",
        "inner",
        "North",
        "Look",
    ):
        assert word in said


def test_hostile_text_is_only_text():
    """No link leads to a script and no markup is kept as markup."""
    text = "<script>alert(1)</script> [a](javascript:alert(1)) <javascript:alert(1)|b> ![c](data:text/html,x)"
    for nodes in (Drawing({}).markdown(text), Drawing({}).mrkdwn(text)):
        assert "a" not in set(tags(nodes))
        assert "<script>" in words(nodes)


def test_a_message_is_read_as_its_words():
    """The text of blocks is what a person reads, in the order in which it appears."""
    blocks = [rich("first"), {"type": "table", "rows": CELLS}, {"type": "header", "text": plain("last")}]
    assert drawn(blocks) == "first\nRegion\tSum\nNorth\t12\nlast"
