"""Text to Slack and from it: nothing notifies, nothing is forged, nothing is lost."""

import re
from html.parser import HTMLParser

from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from channels.slack.blocks import segments, twin
from channels.slack.parsing import bare_fence, parsed
from channels.slack.text import BREAK, active, clean, escape, flowing, neutral, pieces, safe, unescape
from tests.cases import for_each

# What Slack would obey: a mention, a date, a link whose label hides its address.
ACTIVE = re.compile(
    r"<[@#]\w|<!(?!doctype|-|\[)[^>]|<[\w+-]*[:./@][^<>|\n]*\||(?<![\w.])@(?:channel|here|everyone)", re.IGNORECASE
)
MARKERS = [
    "<!channel>", "<!here|x>", "<!everyone>", "<!subteam^S1|@ops>", "<@U1AB>", "<@W2>", "<#C1|general>",
    "<https://evil.example|Bank>", "<mailto:a@b.c|you>", "<!date^1^{date}|x>",
    "&lt;!here&gt;", "&#60;@U1&#x3e;", "@here",
    "\\<!channel>", "<\0!channel>", "<https://ok.example/a?b=c>", "<", "<!", "<@", "|", ">", "@", "&lt;", "!",
]  # fmt: skip
MARKDOWN = [
    "\n", "\n\n", "\r\n", "\r", " ", "    ", "\t", "# ", "- ", "1. ", "> ", "- [ ] ", "---\n", "===\n", "\\",
    "```", "```py\n", "~~~\n", "`", "**", "*", "_", "~~", "snake_case", "[", "]", "](", ")", "![a](",
    "](https://evil.example/x)", "https://a.example/(b)", "[1]: https://d.example\n",
    "| a | b |\n|---|---|\n| 1 | 2 |\n", "<div>", "</div>", "<!-- c -->", "<!DOCTYPE html>", "&amp;",
    "\ud800", "\u202e", "مرحبا", "🙂", "👩‍👩‍👧", "\x07", "x" * 700, "word " * 90,
]  # fmt: skip
texts = st.lists(
    st.one_of(st.sampled_from([*MARKERS, *MARKDOWN, "one", "two", " three "]), st.text(max_size=8)), max_size=40
).map("".join)


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_data(self, data: str) -> None:
        self.found.append(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name == "alt"]


def shown(markdown: str) -> str:
    """Return the signs of the words that a browser would show of *markdown*."""
    page = _Words()
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    page.feed(parser.render(markdown))
    return signs("".join(page.found))


def sent_as_markdown(text: str, start: int = 0) -> str:
    """Return what of *text* goes out as Markdown; the rest is rich text, in which nothing is syntax."""
    return "\n".join(each["text"] for each in segments(text, start) if each["type"] == "markdown")


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def signs(text: str) -> str:
    """Return the characters of words, without those between them."""
    return "".join(words(text))


def is_within(some: str, everything: str) -> bool:
    """Return whether the characters of *some* are in *everything* in this order."""
    rest = iter(everything)
    return all(sign in rest for sign in some)


@for_each("marker", MARKERS[:13])
def test_text_of_a_model_mentions_no_one(marker: str):
    """A mention or a forged link is shown with all of its signs and means nothing."""
    shown = neutral(f"see {marker} now")
    assert not ACTIVE.search(shown)
    assert shown.replace(BREAK, "") == f"see {marker} now"


def test_a_user_may_be_mentioned_where_that_is_allowed():
    """With allow_mentions one user can be mentioned, many at once cannot."""
    assert neutral("<@U1AB> <@W2CD>", allow_mentions=True) == "<@U1AB> <@W2CD>"
    for marker in ("<!channel>", "<!subteam^S1>", "<#C1>", "<@U1|ann>", "<@here>", "&lt;@U1AB>", "@here"):
        assert BREAK in neutral(marker, allow_mentions=True), marker


def test_code_and_plain_links_stay_as_they_are():
    """What only looks like syntax from afar is not touched."""
    for text in (
        "<!DOCTYPE html>",
        "<!-- note -->",
        "a < b",
        "<https://ok.example/x>",
        "Map<string|number>",
        "x@here.example",
    ):
        assert neutral(text) == text


@given(texts)
@settings(deadline=None)
@example("![a](b:<!here|x>:")
def test_no_text_keeps_an_active_marker(text: str):
    """Whatever a text holds, what is left of it for Slack has no marker where markers count, and all of its words."""
    shown = safe(text)
    assert not ACTIVE.search(sent_as_markdown(shown))
    assert is_within(signs(clean(text)), signs(shown))
    assert safe(shown) == shown


@for_each(
    "link, shown",
    [
        ("[bank](https://evil.example/x)", "[bank (evil.example)](https://evil.example/x)"),
        ("[evil.example/y](https://evil.example/y)", "[evil.example/y](https://evil.example/y)"),
        ("[www.bank.example](https://bank.example)", "[www.bank.example](https://bank.example)"),
        (
            "[bank.example](https://bank.example@evil.example)",
            "[bank.example (evil.example)](https://bank.example@evil.example)",
        ),
        ("[a](https\\://evil.example)", "[a (evil.example)](https\\://evil.example)"),
        ("[a](//evil.example/x)", "[a (evil.example)](//evil.example/x)"),
        ("[write](mailto:x@evil.example)", "[write (evil.example)](mailto:x@evil.example)"),
        ("[here](#part)", "[here](#part)"),
        ("![chart](https://evil.example/a.png)", "![chart (evil.example)](https://evil.example/a.png)"),
        ("`x`\n[1]: https://evil.example", "`x`\n\\[1]: https://evil.example"),
        ("```\n[a](https://b.example)\n```", "```\n[a](https://b.example)\n```"),
        ("see `[a](https://b.example)`", "see `[a](https://b.example)`"),
        ("[evil](javascript:alert(1))", r"evil (javascript:alert\(1\))"),
        ('[*e* [v]](<javascript:x> "t") b', "*e* [v] (javascript:x) b"),
        ("[a](javascript:x>>)", r"a (javascript:x\>\>)"),
        ("![e](data:text/html,1) [b](JavaScript&colon;x", r"e (data:text/html,1) [b]\(JavaScript&colon;x"),
    ],
)
def test_a_link_shows_where_it_leads(link: str, shown: str):
    """A label cannot hide the host of its link, and code stays code."""
    assert safe(link) == shown


@given(texts)
@settings(deadline=None)
@example("[![a](](https://evil.example/x)")
@example("[a\n](https://evil.example)\n\n[x]: https://evil.example\n[bank][x]")
@example("[a](\nhttps://evil.example)")
def test_no_link_is_masked(text: str):
    """Every link that a Markdown parser finds shows its host."""
    for token in parsed(safe(text), inline=True):
        children = token.children or []
        for at, child in enumerate(children):
            if child.type == "link_open" and "evil.example" in str(child.attrGet("href")):
                close = next(n for n in range(at, len(children)) if children[n].type == "link_close")
                assert "evil.example" in "".join(each.content for each in children[at:close])


@given(texts, st.lists(st.integers(1, 40), min_size=1, max_size=30))
@settings(deadline=None)
@example("hello <https://x](a|y>", [1])
@example("see [a <b](https://evil.example/x) now", [1])
@example("- `<!ch", [1])
@example("*a ` b* <!here> `", [1])
@example("- a\n  ```\n  x\n  <!here>\n  ```\n- b", [1])
def test_a_growing_text_is_shown_as_it_will_be_in_the_end(text: str, steps: list[int]):
    """However a text comes, each part that is sent continues where the last one ended, and no half marker is sent."""
    whole, sent, at = safe(text), "", 0
    while at < len(text):
        at += steps[len(sent) % len(steps)]
        grown = sent + flowing(text[:at])[len(sent) :]
        assert whole.startswith(grown)
        assert not ACTIVE.search(sent_as_markdown(grown, len(sent)))
        sent = grown
    ended = f"{whole}\n"
    if not any(active(ended)) and bare_fence(ended) == len(ended):  # else the last block is held back until it is whole
        assert flowing(f"{text}\n") == safe(f"{text}\n")


@for_each(
    "grown, sent",
    [
        ("one two", "one two"),
        ("one **tw", "one "),
        ("one **two** th", "one **two** th"),
        ("see [the](https://a.ex", "see "),
        ("see `co", "see "),
        ("say <!cha", "say "),
        ("snake_case and 5 * 3", "snake_case and 5 * 3"),
        ("a\n| b |", "a\n"),
        ("| a |\n|---|\n| 1 | 2", "| a |\n|---|\n"),
        ("```py\nx = [1", ""),
        ("```py\nx = [1\ny", "```py\nx = [1\n"),
        ("```py\nx = 1\n``", "```py\nx = 1\n"),
        ("a\n``", "a\n"),
        ("**" + "x" * 500, "**" + "x" * 500),
    ],
)
def test_what_may_become_a_construct_is_held_back(grown: str, sent: str):
    """The open end of a marker, a link, a code span or a row waits; a lone marker does not hold text back for long."""
    assert flowing(grown) == sent


def test_inbound_text_is_readable():
    """People, channels and links come as names, and signs as they were typed."""
    text = "&lt;b&gt; &amp;lt; <@U1> <@U2|bob> <#C1|ops> <!here> <!subteam^S1|@devs> <https://a.example|docs> <https://b.example>"
    readable = "<b> &lt; @ann @bob #ops @here @devs docs (https://a.example) https://b.example"
    assert unescape(text, {"U1": "ann"}) == readable
    assert unescape("<!date^1700^{date}|yesterday> <mailto:a@b.example|a@b.example>") == "yesterday a@b.example"


@given(st.text(max_size=60))
def test_escaping_is_undone_by_unescaping(text: str):
    """What goes out escaped and comes back is the same text."""
    assert unescape(escape(text)) == text


@given(texts, st.integers(40, 900))
@settings(deadline=None)
def test_pieces_fit_and_lose_no_word(text: str, room: int):
    """Every piece fits the room, and the pieces together hold every word in order, cut words rejoined."""
    found = pieces(clean(text), room)
    assert [piece for piece in found if not (0 < len(piece) <= room)] == []
    assert is_within(signs(clean(text)), signs("".join(found)))


def test_a_fence_is_kept_whole_or_reopened():
    """Code that fits is not cut; other code is closed and continues with its language."""
    code = "```py\n" + "\n".join(f"line_{n} = {n}" for n in range(20)) + "\n```"
    assert pieces(f"{'word ' * 30}\n\n{code}", 400)[1] == code
    cut = pieces(code, 200)
    assert len(cut) > 1
    assert [piece for piece in cut if not (piece.startswith("```py\n") and piece.endswith("\n```"))] == []
    assert [line for piece in cut for line in piece.split("\n")[1:-1]] == code.split("\n")[1:-1]


def test_a_table_is_cut_at_rows_with_its_header():
    """Each part of a table is a table."""
    head = "| name | size |\n|---|--:|\n"
    cut = pieces(head + "".join(f"| row {n} | {n} |\n" for n in range(40)), 200)
    assert len(cut) > 1
    assert [piece for piece in cut if not (piece.startswith(head) and len(piece) <= 200)] == []
    assert sum(piece.count("\n") - 1 for piece in cut) == 40


def test_a_list_is_cut_at_items():
    """An item stays with what is nested in it, and numbers go on."""
    items = [f"{n}. item {n} has some words\n    - nested {n}\n" for n in range(10, 22)]
    cut = pieces("".join(items), 160)
    assert "".join(f"{piece}\n" for piece in cut) == "".join(items)
    assert [piece for piece in cut if not re.match(r"\d+\. item", piece)] == []


def test_code_within_an_item_stays_code():
    """A fence in a list that does not fit is reopened in every piece."""
    code = "".join(f"  line {n}\n" for n in range(40))
    cut = pieces(f"- how to:\n\n  ```sh\n{code}  ```\n- done", 200)
    assert len(cut) > 2
    assert [piece for piece in cut[1:-1] if not ("```sh" in piece and piece.count("```") == 2)] == []


def test_the_twin_has_words_and_no_marks():
    """Notifications and screen readers get plain words, lists with signs, and code."""
    said = twin("# Hi *you*\n\n- a\n  1. b\n- c\n\n| x | y |\n|---|---|\n| 1 | 2 |\n\n> q\n\n`k` ~~s~~")
    assert said == "Hi you\n\n• a\n\n  1. b\n\n• c\n\nx | y\n1 | 2\n\nq\n\n`k` s"
    assert twin("```py\nx\n```\n[see](https://b.example)") == "```\nx\n```\n\nsee (https://b.example)"


@given(texts)
@settings(deadline=None)
@example("> " * 60 + "deep")
@example("<https://ok.example/a><https://ok.example/b>")
def test_the_twin_carries_every_word(text: str):
    """What a browser would show of a Markdown text is in its twin."""
    markdown = safe(text)
    assert is_within(shown(markdown), signs(unescape(twin(markdown))))
