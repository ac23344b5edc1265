"""Text that wants to be more than text, typed by a person or answered by a model, is inert on the page."""

import json

import pytest
from playwright.async_api import expect

from tests.e2e.browser import Tab
from tests.e2e.conftest import MakeVisit, StartServer
from tests.e2e.server import Server
from tests.e2e.test_kill import RUNS

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

HOSTILE = """\
<script>alert("script")</script><img src=x onerror="alert('img')"><svg onload=alert(1)><iframe src="//evil.example/f">

<img src="https://evil.example/pixel.gif"> <base href="https://evil.example/"> <meta http-equiv=refresh content="0;//e">

<style>@import "https://evil.example/s.css"; * { background: url(https://evil.example/b) }</style>

<a href="javascript:alert(1)" onclick="alert(2)">raw</a>
<form action=https://evil.example><input autofocus onfocus=alert(3)>

[one](javascript:alert(1)) [two](JaVaScRiPt:alert(1)) [three](java&#x0A;script:alert(1))
[four](&#106;avascript:alert(1))
[five](data:text/html,<script>alert(1)</script>) [six](vbscript:x) [seven](//evil.example/x) [eight](file:///etc/passwd)
[nine]( javascript:alert(1)) [ten][ref] <javascript:alert(1)> <https://evil.example/auto> https://evil.example/bare

![pixel](https://evil.example/pixel.png) ![`x`](https://evil.example/y.png "a\\" onerror=alert(1)")
![z](javascript:alert(1))

[ref]: javascript:alert(1) "title"

| <img src=x onerror=alert(1)> | [t](javascript:alert(1)) |
| :-- | --: |
| <script>alert(1)</script> | `</code><script>alert(1)</script>` |

```"><script>alert(1)</script>
</code></pre><script>alert(1)</script>
```

- [x] <b onmouseover=alert(1)>task</b>

> &lt;script&gt;alert(1)&lt;/script&gt; &#60;img src=x onerror=alert(1)&#62; \u202egnp.exe \ufeff

<!-- --!><script>alert(1)</script> --> <![CDATA[<script>alert(1)</script>]]>
<template><script>alert(1)</script></template>

End of it: {{notice}} ${alert(1)} %3Cscript%3E"""
FOUND = """chat => {
    const places = [...chat.shadowRoot.querySelectorAll(".text, .bubble")];
    const all = places.flatMap(place => [...place.querySelectorAll("*")]);
    return {
        tags: [...new Set(all.map(each => each.localName))],
        handlers: all.flatMap(each => [...each.attributes].map(a => a.name)).filter(name => name.startsWith("on")),
        links: all.filter(each => each.localName === "a").map(each => [each.protocol, each.target, each.rel]),
        overflow: document.scrollingElement.scrollWidth - innerWidth,
    };
}"""
PLAIN = frozenset({"a", "br", "code", "del", "em", "input", "p", "span", "strong"})
BLOCKS = frozenset({"blockquote", "button", "div", "h3", "h4", "hr", "li", "ol", "pre", "ul"})
HARMLESS = PLAIN | BLOCKS | {"table", "tbody", "td", "th", "thead", "tr"}


@pytest.fixture(scope="module")
def server(start_shared: StartServer) -> Server:
    """A server that answers flat out."""
    return start_shared(rate=0)


async def answered(tab: Tab, server: Server, text: str) -> None:
    """Put *text* into the conversation of *tab* as an answer of the assistant's, as a client imports its history."""
    session = await tab.page.evaluate("Object.entries(localStorage).find(([key]) => key.startsWith('parley:'))[1]")
    messages = [{"role": "assistant", "text": text}, {"role": "user", "text": "What is 2 + 3?"}]
    async with server.client() as operator:
        run = await operator.post(RUNS, json={"session": session, "messages": messages})
    assert run.json()["status"] == "completed", run.text


async def is_inert(tab: Tab) -> None:
    """Hold everything that the tab shows against what markdown may make."""
    found = await tab.chat.evaluate(FOUND)
    assert set(found["tags"]) <= HARMLESS, set(found["tags"]) - HARMLESS
    assert found["handlers"] == []
    for protocol, target, rel in found["links"]:
        assert protocol in {"http:", "https:", "mailto:", "tel:"}
        assert target == "_blank"
        assert {"noopener", "noreferrer"} <= set(rel.split())
    assert found["overflow"] <= 0


@pytest.mark.whole
async def test_what_a_person_types_is_text(visit: MakeVisit):
    """Hostile markdown is shown in the person's own bubble letter by letter, and nothing happens."""
    person = await visit()
    tab = await person.tab()
    await tab.say(HOSTILE)
    await tab.done()
    await expect(tab.questions).to_have_count(1)
    shown = await tab.questions.evaluate("node => node.textContent")
    assert shown == HOSTILE
    assert await tab.questions.evaluate("node => node.children.length") == 0
    await is_inert(tab)
    await tab.picture("10-hostile-question")
    person.check()


async def test_what_a_model_answers_is_inert(visit: MakeVisit, server: Server):
    """Hostile markdown in an answer makes no element, no request, no dialog; after a reload neither."""
    person = await visit()
    tab = await person.tab()
    await tab.say("Hello")
    await tab.done()
    await answered(tab, server, HOSTILE)
    await expect(tab.questions).to_have_count(2)
    await expect(tab.answers).to_have_count(3)
    await tab.done()
    await is_inert(tab)
    shown = await tab.answers.nth(1).inner_text()
    assert '<script>alert("script")</script>' in shown
    assert "End of it: {{notice}} ${alert(1)} %3Cscript%3E" in shown
    await tab.picture("11-hostile-answer")
    await tab.page.reload()
    await expect(tab.answers).to_have_count(3)
    await is_inert(tab)
    assert await tab.answers.nth(1).inner_text() == shown
    person.check()


@pytest.mark.whole
async def test_words_without_end_do_not_break_a_phone(visit: MakeVisit, server: Server):
    """On a small dark screen long words, wide tables and wide code scroll inside the page, not the page itself."""
    person = await visit(color_scheme="dark", viewport={"width": 390, "height": 740}, has_touch=True)
    tab = await person.tab()
    await tab.picture("12-phone-greeting")
    await tab.say("W" * 400)
    await tab.done()
    table = f"| {'|'.join(['column'] * 12)} |\n|{'--|' * 12}"
    wide = f"{'m' * 300}\n\n{table}\n\n```\n{'code ' * 60}\n```\n\n> {'>' * 60} deep"
    await answered(tab, server, wide)
    await expect(tab.answers).to_have_count(3)
    await tab.done()
    await is_inert(tab)
    await tab.picture("13-phone-wide")
    person.check()


@pytest.mark.whole
async def test_a_token_is_nowhere_to_be_read(visit: MakeVisit):
    """The visitor's token is in no address, no storage and no cookie that scripts can read."""
    person = await visit()
    tab = await person.tab()
    await tab.say("Hello")
    await tab.done()
    kept = await tab.page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, name])")
    assert "eyJ" not in kept
    assert json.loads(kept)[2] == ""
    assert not any("eyJ" in url for url in person.requests)
    person.check()
