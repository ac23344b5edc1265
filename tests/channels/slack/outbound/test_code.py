"""Code in an answer is shown as the model wrote it, to the character, and notifies no one."""

from collections.abc import Iterator
from typing import Any

import pytest

from agent_core.testing import say
from channels.slack.blocks import MAX_INDENT, payloads
from channels.slack.picture import never_shorter, picture, tail
from channels.slack.testing.blocks import check
from channels.slack.testing.content import append_chunks
from channels.slack.testing.deliveries import streamed
from channels.slack.testing.shown import Drawing, pings
from channels.slack.testing.world import Stream
from channels.spec import ConversationView
from channels.view import EMPTY, view
from tests.cases import for_each
from tests.channels.slack.answers import Log
from tests.channels.slack.rig import rigged
from tests.polling import PATIENCE

SNIPPETS = (
    "sort <input.txt | uniq -c",
    "mysql -u root <dump.sql | tee log",
    "while read l; do echo $l; done <a.b | wc",
    "cat <<EOF | kubectl apply -f -",
    "diff <(sort a.txt) <(sort b.txt) | head",
    "List<@NotNull String> names",
    "Map<string.Key | number> m",
    "std::vector<std::pair<int,int>> v; a<b::c|d",
    "<#if user??>Hi ${user}</#if>",
    "<!channel> <!here> <!everyone>",
    "<@U1AB> and <#C1|general>",
    "<!subteam^S1|@ops> <!date^1^{date}|x>",
    "<https://evil.example|Bank>",
    "<mailto:a@b.c|you>",
    '<a href="https://a.example/x">x</a> | b',
    "@channel @here @everyone",
    "git push origin @here || true",
    "&lt;!channel&gt; &amp;lt;",
    "<!DOCTYPE html><!-- note -->",
    "if (a <b.c || d) { return a<-b; }",
    "SELECT * FROM t WHERE a<@max AND b<>'x'",
    "x = [evil](https://evil.example) + [1]: y",
    "[link](javascript:alert(1))",
    "arr[0](call) **not bold** _x_ ~~y~~",
    "<http://" + "x" * 600,
    "\\<!channel> $(<file.txt) |& tee",
)
FORMS = {
    "fence": "Run this:\n\n```sh\n{}\n```\n\nand *then* go on",
    "later line": "```sh\n# first\n{}\n# last\n```",
    "unclosed": "```\n{}",
    "tilde": "~~~\n{}\n~~~",
    "in a list": "1. do\n   ```\n   {}\n   ```\n2. go",
    "span": "First `{}` then **more** and [a](https://a.example/b)",
    "span in a list": "- say `{}`\n- end",
    "span in a table": "a\n\n> quoted `{}` here\n",
}


def code_of(nodes: Any) -> Iterator[str]:
    """Yield the texts of the code that a drawing shows."""
    for node in nodes:
        if isinstance(node, list) and node[0] in ("pre", "code"):
            yield "".join(map(str, node[2]))
        elif isinstance(node, list):
            yield from code_of(node[2])


def drawn(blocks: list[Any]) -> str:
    return "".join(f"{code}\n" for code in code_of(Drawing({}).blocks(blocks)) if code).replace("\n\n", "\n")


def inner(form: str, snippet: str) -> str:
    before = {"later line": "# first\n"}.get(form, "")
    after = {"later line": "# last\n"}.get(form, "")
    return f"{before}{snippet}\n{after}"


def grown(markdown: str, step: int) -> Iterator[ConversationView]:
    """Yield the views of an answer that comes in pieces of *step* characters, the last one ended."""
    log, body = Log(), EMPTY
    log.ask("Show me")
    log.say(*(markdown[at : at + step] for at in range(0, len(markdown), step)))
    log.end(markdown)
    for batch in log.batches:
        for event in batch:
            body = view(body, event)
        yield body


@for_each("form", FORMS)
@for_each("snippet", SNIPPETS)
def test_code_is_posted_as_it_was_written(snippet: str, form: str):
    """A posted message shows code to the character, as blocks and as text, and no one is notified."""
    found = payloads(FORMS[form].format(snippet))
    blocks = [block for each in found for block in each.blocks]
    assert drawn(blocks) == inner(form, snippet)
    text = "\n".join(each.text for each in found)
    assert not list(pings(text, blocks))
    assert snippet in text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


@pytest.mark.whole
@for_each("form", FORMS)
@for_each("snippet", SNIPPETS)
def test_code_is_streamed_as_it_was_written(snippet: str, form: str):
    """A stream shows the same, however it grows, and is never taken back."""
    for step in (1, 7):
        stream, shown = Stream(0), ()
        for body in grown(FORMS[form].format(snippet), step):
            wanted = picture(body).items if body.runs[0].ended else never_shorter(shown, picture(body).items)
            chunks = tail(shown, wanted)
            assert chunks is not None
            append_chunks(chunks, stream)
            shown = wanted or shown
        blocks = streamed(stream)
        assert drawn(blocks) == inner(form, snippet)
        assert not list(pings(stream.markdown, blocks))


async def test_code_reaches_slack_as_it_was_written(make_core):
    """An answer with every snippet is streamed, and posted where nothing streams, with whole code and no mention."""
    answer = "Here it is.\n\n" + "\n\n".join(f"```sh\n{snippet}\n```" for snippet in SNIPPETS)
    pieces = [answer[at : at + 40] for at in range(0, len(answer), 40)]
    async with rigged(make_core, answer=lambda _: [say(*pieces)], shown=True, hasty=True) as rig:
        (await rig.workspaces.space("T0001")).without_streams = {"CDATA"}
        for channel in ("CGENERAL", "CDATA"):
            root = (await rig.team.mentions("UANN", channel, "Show me")).ts

            def is_shown(channel: str = channel, root: str = root) -> bool:
                found = rig.team.answers(channel, root)
                return bool(found) and SNIPPETS[-1] in found[-1].text and not found[-1].streaming

            await rig.stand_in.until(is_shown, timeout=PATIENCE)
            said = rig.team.answers(channel, root)
            code = [code for each in said for code in code_of(Drawing({}).blocks(list(each.blocks)))]
            assert [each.removesuffix("\n") for each in code] == list(SNIPPETS)
            assert [each.pings for each in said] == [()] * len(said)


def test_a_block_as_rich_text_keeps_its_form():
    """Lists with numbers and levels, quotes, headings, tables, links and styles are there, and Slack takes them."""
    deep = "".join(f"{'  ' * n}- level {n}\n" for n in range(12))
    markdown = (
        "3. one `<!here>` **b** _i_ ~~s~~ [a](https://a.example)\n   ```\n   x\n   ```\n4. two\n\n   more\n\n"
        f"> q `<!here>`\n\n# h `<!here>`\n\n| a `<!here>` | b |\n|---|---|\n| 1 | 2 |\n\n---\n\n{deep}- `<!here>`\n"
    )
    (made,) = payloads(markdown)
    assert not list(check(list(made.blocks)))
    parts = [part for block in made.blocks if block["type"] == "rich_text" for part in block["elements"]]
    lists = [part for part in parts if part["type"] == "rich_text_list" and part["style"] == "ordered"]
    assert [(part["offset"], len(part["elements"])) for part in lists] == [(2, 1), (3, 1)]
    assert max(part.get("indent", 0) for part in parts) == MAX_INDENT
    assert "3. one" in made.text
    assert {"rich_text_quote", "rich_text_preformatted", "rich_text_section"} < {part["type"] for part in parts}
