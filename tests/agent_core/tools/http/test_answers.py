"""What the model reads of an answer: text as it is, other things described, everything that goes wrong named."""

import asyncio
import gzip
import json
from time import process_time
from typing import Any

import pytest

from agent_core.messages import Text
from agent_core.net.fetch import Fetched
from agent_core.tools import http as http_tool
from agent_core.tools.base import Done, ToolError
from agent_core.tools.http import error_of, page_text, text_of
from agent_core.tools.output import CatalogTool
from tests.agent_core.net.stage import last, moved, ok
from tests.agent_core.tools.http.calling import Calling, calling
from tests.cases import for_each

JSON = "Content-Type: application/json"


def header(kind: str) -> str:
    return f"Content-Type: {kind}"


@for_each(
    "answer, text",
    [
        (ok('{"a":"ö"}'.encode(), JSON), '{"a":"ö"}'),
        (ok("ö".encode("latin-1"), header("text/plain; charset=ISO-8859-1")), "ö"),
        (ok(b"\xff\xfeo\0", header("text/plain; charset=utf-16")), "o"),
        (ok(b"\xef\xbb\xbf{}", header("application/problem+json")), "{}"),
        (ok("ö\xff".encode("latin-1"), header("text/plain; charset=punycode")), "��"),
        (ok(b"<p><b>h</b>i</p>", header("text/html")), "hi"),
        (ok(b"<b>hi</b>", header("text/xml")), "<b>hi</b>"),
        (ok(b'{"a": "&quot;<i>x</i>"}', header("text/html")), '{"a": "&quot;<i>x</i>"}'),
        (ok(b"id,name\n1,a\n", header("text/html")), "id,name\n1,a\n"),
        (ok("größer".encode()), "größer"),
        (ok(b"\x89PNG\0\1", header("image/png")), "HTTP 200 OK. The answer is image/png, 6 bytes; it is not shown."),
        (ok(b"\0\1\2"), "HTTP 200 OK. The answer is of no known type, 3 bytes; it is not shown."),
        (ok(b"", status="204 No Content"), "HTTP 204 No Content, with an empty answer."),
        (ok(b"", status="299 Odd"), "HTTP 299, with an empty answer."),
        (ok(gzip.compress(b"packed"), "Content-Encoding: gzip", header("text/plain")), "packed"),
    ],
)
async def test_an_answer_is_text_or_is_described(api: Calling, answer, text):
    """Text is decoded by its charset and shown as it is; anything else is named with its size."""
    api.site.answers["/orders"] = answer
    assert await api.done() == text


PAGE = """<!doctype html><title>Shop &amp; more</title><style>p {}</style><script>alert("<p>no")</script><!-- <p>no -->
<ul><li><a href="/a?x=1&amp;y=2">A</a><li><a href='javascript:no()'>B</a></ul><h2>Open&nbsp;now</h2>
<p>Some <b>bo</b>ld
   text &lt;b&gt;<br>x<table><tr><th>Sku<th>N</tr><tr><td>K1<td>3</table><img src=k.png alt="A kettle">"""


async def test_a_page_is_its_text(api: Calling):
    """Blocks are lines, links keep where they lead, and what shows nothing is left out; `source` is as it came."""
    api.site.answers["/orders"] = ok(PAGE.encode(), header("text/html; charset=utf-8"))
    lines = (await api.done()).splitlines()
    assert lines[:4] == ["Shop & more", "- [A](/a?x=1&y=2)", "- B", "## Open now"]
    assert lines[4:] == ["Some bold text <b>", "x", "| Sku | N", "| K1 | 3", "A kettle"]
    assert await api.done(html="source") == PAGE


@for_each(
    "page, text",
    [
        ("<p>a</p><svg class=x /><p>rest</p>", "a\nrest"),
        ("<p>a</p><svg><path d=x></svg><p>rest</p>", "a\nrest"),
        ("<p>3 < 4 and 5 > 2", "3 < 4 and 5 > 2"),
        ("<p>a<!--> b</p>", "a b"),
        ("<a data-href=/wrong href=/right>go</a>", "[go](/right)"),
        ("<pre>one:\n  two", "one:\n  two"),
        ("<pre>one:\n  two\n\nthree</pre><p>a\n  b", "one:\n  two\n\nthree\na b"),
    ],
)
def test_a_page_is_read_as_browsers_do(page: str, text: str):
    """What closes itself hides nothing, a sign that opens no tag is text, and code keeps its lines."""
    assert page_text(page) == text


@for_each("written", ["opensesame", "<b>open</b>sesame", "o&#112;ensesame", "<!-- opensesame -->"])
async def test_no_secret_is_in_the_text_of_a_page(api: Calling, written: str):
    """A value that markup has cut in two is masked once it is whole."""
    api.secrets["KEY"] = "opensesame"
    api.site.answers["/orders"] = ok(f"<p>It is {written}.".encode(), header("text/html"))
    text = await api.done(headers={"X-Key": "{{secret:KEY}}"})
    assert text in ("It is [secret KEY].", "It is .")


async def test_a_head_has_the_headers_that_say_something(api: Calling):
    """HEAD answers with the status and the headers that describe the thing."""
    api.site.answers["/orders"] = b'HTTP/1.1 200 OK\r\nContent-Length: 7\r\nETag: "e"\r\nSet-Cookie: a=b\r\n\r\n'
    assert await api.done(method="HEAD") == 'HTTP 200 OK\ncontent-length: 7\netag: "e"'


@for_each(
    "answer, says",
    [
        (
            ok(b'{"detail":"no such order"}', JSON, status="404 Not Found"),
            '404 Not Found from GET {at}: {{"detail":"no such order"}}',
        ),
        (
            ok(b"x" * 400, header("text/plain"), status="500 Oops"),
            f"500 Internal Server Error from GET {{at}}: {'x' * 300}",
        ),
        (
            ok(b"<html><style>p {}</style><h1>Bad\n gateway</h1></html>", header("text/html"), status="502 Bad"),
            "502 Bad Gateway from GET {at}: Bad gateway",
        ),
        (ok(b"", status="401 No"), "401 Unauthorized from GET {at}."),
        (ok(b"\0\1", header("image/png"), status="400 No"), "400 Bad Request from GET {at}."),
        (ok(b"", f"Retry-After: {'x' * 36}s3cr3t", status="429 Slow"), "429 Too Many Requests from GET {at}."),
        (
            ok(b"", "Retry-After: Fri, 31 Dec 1999 23:59:59 GMT", status="503 Slow"),
            "503 Service Unavailable from GET {at} (Retry-After: Fri, 31 Dec 1999 23:59:59 GMT).",
        ),
        (ok(b"", "Retry-After: 7", status="429 Slow"), "429 Too Many Requests from GET {at} (Retry-After: 7)."),
        (ok(b"", status="304 Same"), "304 Not Modified from GET {at}."),
    ],
)
async def test_a_status_that_is_no_success_is_an_error(api: Calling, answer, says):
    """The model reads the status, the method, the host and the first words, and nothing of the query."""
    api.site.answers["/orders?page=1"] = answer
    at = f"127.0.0.1:{api.site.port}"
    assert await api.failed(query={"page": "1"}) == f"HTTP {says.format(at=at)}"


async def test_an_author_may_take_a_status_as_an_answer(api: Calling):
    """A status in `ok` is no error."""
    api.site.answers["/orders"] = ok(b"none", header("text/plain"), status="404 Not Found")
    assert await api.done(ok=[404]) == "none"


async def _silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    await reader.read()


def bomb() -> bytes:
    """Return ten megabytes of nothing, packed."""
    return ok(gzip.compress(bytes(10_000_000)), "Content-Encoding: gzip", header("text/plain"))


@for_each(
    "answer, says",
    [
        (_silent, "within 0.1 s"),
        (last(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"), "not to its end"),
        (last(b"\x00\x01nonsense\r\n\r\n"), "no HTTP"),
        (bomb(), "more than 5000000 bytes"),
        (ok(b"x", "Content-Encoding: gzip"), "it is not"),
        (ok(b"x", "Content-Encoding: br"), "encoding"),
    ],
)
@for_each("method", ["GET", "POST"])
async def test_an_answer_that_does_not_come_is_named(api: Calling, answer, says, method):
    """Slow, cut, malformed and huge answers end in one sentence with the host; a write is not known to have failed."""
    api.site.answers["/orders?key=abcdef"] = answer
    outcome = await api.call(
        query={"key": "abcdef"}, method=method, body="query", timeout_s=0.1 if answer is _silent else 30
    )
    assert isinstance(outcome, ToolError)
    assert says in outcome.message
    assert f"127.0.0.1:{api.site.port}" in outcome.message
    assert "abcdef" not in outcome.message
    assert outcome.unknown == (method == "POST") == ("not known" in outcome.message)


async def test_a_server_that_is_down_has_done_nothing():
    """A write that no connection was made for has failed, and its outcome is known."""
    async with calling("127.0.0.1:1") as api:
        outcome = await api.call(method="POST", url="http://127.0.0.1:1/x")
    assert isinstance(outcome, ToolError)
    assert ("cannot be reached" in outcome.message, outcome.unknown) == (True, False)


@for_each(
    "location, says",
    [
        ("http://169.254.169.254/latest", "to another origin, which"),
        ("http://127.0.0.1:1/admin", "to another origin, which"),
        ("//other.example/x", "to another origin, which"),
        ("http://[::1/", "cannot be read"),
        ("/loop", "again and again"),
    ],
)
async def test_a_redirect_that_is_not_followed_is_named(api: Calling, location, says):
    """A redirect to another origin, inward above all, is refused, and so is one without end; nothing is sent there."""
    api.site.answers |= {"/orders": moved(location), "/loop": moved("/loop")}
    assert says in await api.failed()
    assert {sent.path for sent in api.site.requests} <= {"/orders", "/loop"}


async def test_a_read_follows_redirects_within_its_origin_with_its_headers(api: Calling):
    """A redirect to another path of the same server is followed, and the secret goes along."""
    api.secrets["KEY"] = "s3cr3t-value"
    api.site.answers |= {"/orders": moved("/v2/orders"), "/v2/orders": ok(b"found", header("text/plain"))}
    assert await api.done(headers={"X-Key": "{{secret:KEY}}"}) == "found"
    assert api.site.requests[1].headers["x-key"] == "s3cr3t-value"


async def test_a_write_follows_no_redirect(api: Calling):
    """A redirect of a write is an error that says what to change."""
    api.site.answers["/orders"] = moved("/v2/orders", 307)
    assert "not followed with this method" in await api.failed(method="POST")
    assert len(api.site.requests) == 1


@for_each(
    "status, fields, is_unknown",
    [
        (303, {}, True),
        (302, {"idempotent": True}, True),
        (307, {}, False),
        (502, {}, True),
        (504, {}, True),
        (504, {"idempotent": True}, False),
        (504, {"effect": "read"}, False),
        (500, {}, False),
    ],
)
async def test_a_write_whose_answer_leaves_it_open_has_no_known_end(
    api: Calling, status: int, fields: dict[str, Any], is_unknown: bool
):
    """With a redirect after a form, or a gateway that gave up, the write may have been carried out."""
    api.site.answers["/orders"] = moved("/orders/7", status)
    outcome = await api.call(method="POST", **fields)
    assert isinstance(outcome, ToolError)
    assert outcome.unknown == is_unknown == ("not known" in outcome.message)


async def test_the_model_reads_at_most_ten_thousand_characters(api: Calling):
    """The limit of the spec is that of an HTTP tool, however large the author's is."""
    limits: list[Any] = [api.kind.tool(api.definition(result_limit=n), {}).spec.result_limit for n in (500, 50_000)]
    assert limits == [500, http_tool.RESULT_LIMIT]


@for_each("output", ["seen", "jq:.seen", "jq:.nested | fromjson | .seen"])
@for_each("escape", [("/", "\\/"), ("+", "\\u002B")])
async def test_an_output_expression_unescapes_no_secret(api: Calling, output: str, escape: tuple[str, str]):
    """What the mapping decodes has been masked, however the server escaped it."""
    api.secrets["KEY"] = "AKIA/wJalr+XUtnFEMI/K7MD"
    seen = json.dumps({"seen": "Bearer AKIA/wJalr+XUtnFEMI/K7MD"}).replace(*escape)
    api.site.answers["/orders"] = ok(f'{{"nested": {json.dumps(seen)}, {seen[1:]}'.encode(), JSON)
    definition = api.definition(headers={"Authorization": "Bearer {{secret:KEY}}"}, output=output)
    outcome = await CatalogTool(definition, api.kind.tool(definition, {})).call({}, api.call_context())
    assert outcome == Done((Text("Bearer [secret KEY]"),))


@pytest.mark.whole
@for_each(
    "part",
    ["<script>", "<style>\n", "<script ", "<", "<script></", "<a b='", "<!--", "<a href=x>", "<a href ", "&amp;"],
)
def test_markup_takes_time_that_grows_with_the_answer_alone(part: str):
    """An answer of tags that never end is read in a moment, where each of them used to be read to its end."""
    answer = Fetched(500, {"content-type": "text/html"}, b"Oh! " + part.encode() * 20_000, "http://x/")
    began = process_time()
    assert "x: Oh!" in error_of("GET", answer, {})
    assert text_of("GET", answer, {}).startswith("Oh!")
    assert process_time() - began < 0.6
