"""The demo model: answers without a key, with figures, tools and approvals."""

import asyncio
import json
import re
import zlib
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec

from agent_core.agent.entries import ASKED
from agent_core.agents import ToolSpec
from agent_core.clock import Clock
from agent_core.controls import ABLE, Abilities, permitted
from agent_core.messages import UNKNOWN_USAGE, Text, ToolCall, ToolResult, text_of
from agent_core.providers.base import (
    Encode,
    Finished,
    ModelDelta,
    ModelTextDelta,
    Request,
    RequestEntry,
    Started,
    ToolArgsDelta,
    ToolEnd,
    ToolStart,
    UsageReport,
    neutral,
)

_Object = dict[str, Any]
_ASKED = re.compile(
    r"\bsample\s+(?:(?P<table>table)|(?P<heatmap>heat\s?map)"
    r"|(?:(?P<kind>bar|column|line|area|pie|scatter)\s+)?(?:chart|graph|plot))",
    re.IGNORECASE,
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun")
_VISITS: Final[Mapping[str, tuple[int, ...]]] = {
    "Search": (420, 510, 480, 610, 690, 740),
    "Friends": (180, 160, 230, 250, 310, 290),
}
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri")
_HOURS = ("9:00", "11:00", "13:00", "15:00", "17:00")
_TABLE: Final[_Object] = {
    "title": "Sample: a small shop",
    "columns": [
        {"key": "product", "label": "Product"},
        {"key": "sold", "label": "Sold", "format": "integer"},
        {"key": "revenue", "label": "Revenue", "format": "currency:EUR"},
        {"key": "change", "label": "Change", "format": "percent"},
        {"key": "restocked", "label": "Restocked", "format": "date"},
    ],
    "rows": [
        {"product": "Teapot", "sold": 1240, "revenue": 30876.0, "change": 0.12, "restocked": "2026-01-12"},
        {"product": "Kettle", "sold": 385, "revenue": 18287.5, "change": -0.034, "restocked": "2026-02-03"},
        {"product": "Cup", "sold": 5210, "revenue": 41159.0, "change": 0.271, "restocked": "2026-02-20"},
        {"product": "Tea towel", "sold": 96, "revenue": 1142.4, "change": 0.0, "restocked": "2025-11-30"},
    ],
}


def figures_asked(text: str) -> Iterator[tuple[str, _Object]]:
    """Yield the tool and the arguments of each sample that *text* asks for, the first one of each tool."""
    figures = dict[str, _Object]()
    for match in _ASKED.finditer(text):
        if match["table"]:
            figures.setdefault("render_table", _TABLE)
        else:
            kind = "heatmap" if match["heatmap"] else (match["kind"] or "bar").lower()
            figures.setdefault("render_chart", _chart("bar" if kind == "column" else kind))
    yield from figures.items()


def presented(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the sentence that goes with what *tool* has drawn."""
    if tool == "render_table":
        return "Here is the sample table." if arguments == _TABLE else "Here is the table."
    title = str(arguments.get("title"))
    kind = next((kind for kind in _CHARTS if title == _CHARTS[kind][0]), None)
    if kind is None:
        return "Here is the chart."
    return "Here is the sample heatmap." if kind == "heatmap" else f"Here is the sample {kind} chart."


def _chart(kind: str) -> _Object:
    title, mark, rows, encoding = _CHARTS[kind]
    return {"title": title, "vega_lite_spec": {"mark": mark, "data": {"values": rows}, "encoding": encoding}}


def _field(name: str, type: str = "quantitative", **more: Any) -> _Object:
    return {"field": name, "type": type, **more}


def _monthly(*sources: str) -> list[_Object]:
    return [
        {"month": month, "source": source, "visits": visits}
        for source in sources
        for month, visits in zip(_MONTHS, _VISITS[source], strict=True)
    ]


_MONTH: Final = _field("month", "ordinal", sort=None, title="Month")
_COUNT: Final = _field("visits", title="Visits")
_SOURCE: Final = _field("source", "nominal", title="From")
_CHARTS: Final[Mapping[str, tuple[str, str, list[_Object], _Object]]] = {
    "bar": ("Sample: visits per month", "bar", _monthly("Search"), {"x": _MONTH, "y": _COUNT}),
    "line": (
        "Sample: visits over time",
        "line",
        _monthly("Search", "Friends"),
        {"x": _MONTH, "y": _COUNT, "color": _SOURCE},
    ),
    "area": (
        "Sample: all visits over time",
        "area",
        _monthly("Search", "Friends"),
        {"x": _MONTH, "y": _COUNT, "color": _SOURCE},
    ),
    "pie": (
        "Sample: where visits come from",
        "arc",
        [{"source": "Search", "visits": 3450}, {"source": "Friends", "visits": 1420}, {"source": "Ads", "visits": 610}],
        {"theta": _COUNT, "color": _SOURCE},
    ),
    "scatter": (
        "Sample: price and number sold",
        "point",
        [{"price": 5 + 4 * n, "sold": 520 - 38 * n + (n * 53) % 61} for n in range(12)],
        {"x": _field("price", title="Price"), "y": _field("sold", title="Sold")},
    ),
    "heatmap": (
        "Sample: visits by day and hour",
        "rect",
        [
            {"day": day, "hour": hour, "visits": 12 + (7 * d + 5 * h) % 23 + 6 * h}
            for d, day in enumerate(_DAYS)
            for h, hour in enumerate(_HOURS)
        ],
        {
            "x": _field("hour", "ordinal", sort=None, title="Hour"),
            "y": _field("day", "ordinal", sort=None, title="Day"),
            "color": _COUNT,
        },
    ),
}
"""Title, mark, rows and encoding of each kind."""


HEADING = "People asked, the newest last:"
_MAX_LINES, _LENGTH = 20, 200
_ITEM = "- "


def summary_of(messages: Sequence[RequestEntry], is_note: Sequence[bool]) -> str | None:
    """Return the summary if the newest of *messages* asks for one; *is_note* says which are not of people."""
    if not messages or ASKED not in text_of(messages[-1].message.parts):
        return None
    requests: list[str] = []
    for entry, noted in zip(messages[:-1], is_note, strict=False):
        text = text_of(entry.message.parts).strip()
        if noted and HEADING in text:
            requests += [line.removeprefix(_ITEM) for line in text.split("\n") if line.startswith(_ITEM)]
        elif entry.message.role == "user" and not noted and text:
            requests.append(" ".join(text.split())[:_LENGTH])
    return "\n".join([HEADING, *(f"{_ITEM}{line}" for line in requests[-_MAX_LINES:])])


MAX_USES = 16
"""How many uses of one message are read."""
LISTED = 20
"""How many tools a sentence lists."""
_USE = re.compile(r"\buse\s{1,3}(`?)(?P<tool>[A-Za-z0-9_-]{1,64})\1(?![\w`])[:\s]{0,3}", re.IGNORECASE)
_SAMPLES: Final[dict[object, Any]] = {"integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}


@dataclass(frozen=True, slots=True)
class Use:
    """A tool by the name that was written, its arguments (None when what follows is no JSON object, as *fault* says).

    The text from *start* to *end* is about nothing else.
    """

    tool: str
    arguments: dict[str, Any] | None
    fault: str
    start: int
    end: int


def uses(text: str, tools: Sequence[ToolSpec]) -> Iterator[Use]:
    """Yield the uses in *text*; without arguments only of one of *tools*, or when the text says nothing else."""
    names, position = {tool.name for tool in tools}, 0
    for _ in range(MAX_USES):
        while (match := _USE.search(text, position)) is not None:
            position = match.end()
            if text.startswith("{", position) or match["tool"] in names or match.group().strip() == text.strip():
                break
        if match is None:
            return
        use = _read(text, match)
        yield use
        position = use.end


def without(text: str, uses: Sequence[Use]) -> str:
    """Return what *text* says beside its *uses*."""
    rest, position = "", 0
    for use in uses:
        rest += f"{text[position : use.start]} "
        position = use.end
    return rest + text[position:]


def fault_of(use: Use, tools: Sequence[ToolSpec]) -> str | None:
    """Return why *use* calls none of *tools*, in a sentence with what can be used; None when it does."""
    named = {tool.name: tool for tool in tools}
    if use.tool not in named:
        return f"There is no tool `{use.tool}`; {listed(tools)}"
    if use.arguments is None:
        return (
            f"What follows `use {use.tool}` is no JSON object ({use.fault}). Write it like this: "
            f"`{sample(named[use.tool])}`."
        )
    return None


def listed(tools: Sequence[ToolSpec]) -> str:
    """Return the names of *tools* as the end of a sentence."""
    names = [f"`{tool.name}`" for tool in tools[:LISTED]]
    more = f" and {len(tools) - LISTED} more" if len(tools) > LISTED else ""
    return f"I can use {', '.join(names)}{more}." if names else "this agent has no tools."


def sample(tool: ToolSpec) -> str:
    """Return what a person may write to use *tool*, with a value for each argument that it requires."""
    properties = cast("dict[str, Any]", tool.parameters.get("properties") or {})
    required = cast("list[str]", tool.parameters.get("required") or [])
    values = {name: _value(properties.get(name)) for name in required}
    return f"use {tool.name} {json.dumps(values, ensure_ascii=False)}"


def _value(schema: Any) -> Any:
    fields = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    if isinstance(listed := fields.get("enum"), list) and listed:
        return cast("list[Any]", listed)[0]
    return _SAMPLES.get(fields.get("type") if isinstance(fields.get("type"), str) else None, "…")


def _read(text: str, match: re.Match[str]) -> Use:
    """Return the use at *match*, with the JSON object after it; what cannot be read is taken up to the end."""
    start, end = match.end(), match.end()
    if not text.startswith("{", start):
        return Use(match["tool"], {}, "", match.start(), end)
    try:
        end = json.JSONDecoder().raw_decode(text, start)[1]
        arguments = msgspec.json.decode(text[start:end])
    except json.JSONDecodeError as error:
        return Use(match["tool"], None, f"{error.msg}, character {error.pos - start + 1}", match.start(), len(text))
    except (ValueError, RecursionError):  # what only Python takes for JSON, half a character, a thousand levels
        return Use(match["tool"], None, "it cannot be read", match.start(), len(text))
    return Use(match["tool"], arguments, "", match.start(), end)


DEFAULT_RATE = 50.0
BREATH = 16
"""Deltas of a batch without a rate; before each batch the event loop runs, so that Stop takes effect."""

MARK = "*This is a demonstration: a script wrote this, not a model.*"
HELP = """\
Hello! I am the demonstration that ships with Parley: a small script, no real model, so that you can see \
everything work before you have a key. Try one of these:

{{examples}}
For a real model set `ANTHROPIC_API_KEY` or `OPENAI_API_KEY` where Parley runs, and start it again."""
EXAMPLES = "{{examples}}"
"""Where the help text has what to try."""
SHIPPED: Sequence[tuple[frozenset[str], str]] = (
    (frozenset({"calculate"}), "`What is 12 * 7?` calls the tool `calculate`."),
    (frozenset({"current_time"}), "`What time is it in Europe/Berlin?` calls the tool `current_time`."),
    (frozenset({"calculate", "current_time"}), "`What is 2 + 2, and what time is it?` calls both in one step."),
    (
        frozenset(),
        "`Explain at length` streams a long answer: reload the page or press Stop in the middle of it.",
    ),
    (frozenset({"render_table"}), "`Show me a sample table.` shows one, with numbers, money and dates."),
    (
        frozenset({"render_chart"}),
        "`Draw me a sample bar chart.` draws one; so do `line`, `area`, `pie` and `scatter`, and `a sample heatmap`.",
    ),
    (
        frozenset({"calculate"}),
        '`use calculate {"expression": "2 ** 10"}` calls any tool of the agent, with the arguments as JSON.',
    ),
)
"""What to try with the tools that ship, each with those that it needs."""

# Possessive quantifiers and bounded repeats: the time to search grows with the text, never faster.
_NUMBER = r"(?:\d{1,3}(?:,\d{3})++(?![\d,])|\d++)(?:\.\d++)?+"
_OPERATOR = r"\*\*|//|[-+*/%^\u00d7\u00f7\u2212]|(?:x|plus|minus|times|divided by)(?=[\s\d(.-])"
_OPERAND = rf"\({{0,4}}[-\u2212]?{_NUMBER}\){{0,4}}"
_ISO_DATE = r"\d{4}-\d{2}-\d{2}"
SUM = re.compile(
    rf"(?<![\w.])(?<!\d-)(?!{_ISO_DATE}){_OPERAND}(?:\s{{0,3}}(?:{_OPERATOR})\s{{0,3}}{_OPERAND})++", re.IGNORECASE
)
PIECE = re.compile(rf"{_NUMBER}|{_OPERATOR}|[()]", re.IGNORECASE)
NOTE = re.compile(r"\[(?:clock|thread|memory|knowledge|tools|note|summary)(?: [\w-]+)?\]\s")
"""How Parley's own notes in the window begin, with the session's marker; they are not a user's question."""
SPEAKER = re.compile(r"\[speaker(?: ([\w-]+))?\] [^\n]*?(?:\[/speaker \1\])?\n+")
"""Who wrote the message that follows, where several people write."""
ZONE = re.compile(r"\b(?:UTC|[A-Z][A-Za-z]+(?:/[A-Z][A-Za-z_+-]+){1,2})\b")
OPERATORS = {"^": "**", "\u00d7": "*", "\u00f7": "/", "\u2212": "-", "x": "*"} | {
    "plus": "+",
    "minus": "-",
    "times": "*",
    "divided by": "/",
}


class DemoProvider:
    """Answer by rule, at *rate* deltas per second (0: without pauses); usage is unknown, since there is no model."""

    def __init__(self, clock: Clock, rate: float = DEFAULT_RATE) -> None:
        self._clock, self._rate = clock, rate

    @property
    def name(self) -> str:
        return "demo"

    def accepts(self, model: str) -> bool:
        return not model

    def able(self, model: str) -> Abilities:  # noqa: ARG002 - the port has it
        return ABLE

    def encoder(self, model: str) -> Encode:  # noqa: ARG002 - the port has it
        """Return how a message becomes neutral JSON."""
        return neutral

    async def stream(self, request: Request) -> AsyncGenerator[Sequence[ModelDelta], None]:
        """Yield a batch per word of text or call; all that became due while the last one was read is one batch."""
        notes = [bool(NOTE.match(text_of(entry.message.parts))) for entry in request.messages]
        summary = summary_of(request.messages, notes)
        situation = read(request.messages, request.snapshot.tools)
        wanted_calls = [] if summary else [wanted for wanted in situation.open if _may_call(wanted, request)]
        yield (Started(f"demo_{len(request.messages)}", request.model),)
        begin = self._clock.now()
        batches = list(
            _calls(wanted_calls, request) if wanted_calls else _text_deltas(summary or answer(situation, request))
        )
        n = 0
        while n < len(batches):
            await self._pace(begin, n)
            end = self._due(begin, n)
            yield tuple(delta for batch in batches[n:end] for delta in batch)
            n = end
        yield UsageReport(UNKNOWN_USAGE), Finished("tools" if wanted_calls else "done")

    async def _pace(self, begin: int, n: int) -> None:
        """Wait for the moment of batch *n* of an answer that began at *begin* milliseconds."""
        if self._rate <= 0:
            await asyncio.sleep(0)
            return
        ahead = begin / 1000 + n / self._rate - self._clock.now() / 1000
        # Never longer than one interval, even when the system clock is changed.
        await self._clock.sleep(min(max(0.0, ahead), 1 / self._rate))

    def _due(self, begin: int, n: int) -> int:
        """Return the end of the batches that are due from *n* on: a driver that pauses gets them as one."""
        if self._rate <= 0:
            return n + BREATH
        return max(n, int((self._clock.now() - begin) / 1000 * self._rate)) + 1


@dataclass(frozen=True, slots=True)
class WantedCall:
    """A tool that the message asks for."""

    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Situation:
    """The state of the conversation: the last user message, the tools it still asks for, and the results so far.

    *faults* say which uses of tools cannot be.
    """

    text: str
    open: tuple[WantedCall, ...]
    faults: tuple[str, ...]
    results: tuple[tuple[ToolCall, ToolResult], ...]

    @property
    def at_length(self) -> bool:
        return "at length" in self.text.lower()


def read(messages: Sequence[RequestEntry], tools: Sequence[ToolSpec]) -> Situation:
    """Read the window of an agent with *tools* from its end: the results since the last answer, what is asked for."""
    text = ""
    called: set[str] = set()
    calls: dict[str, ToolCall] = {}
    results: list[tuple[ToolCall, ToolResult]] = []
    for message in (entry.message for entry in messages):
        if message.role == "user" and not NOTE.match(words := text_of(message.parts)):
            text, called = SPEAKER.sub("", words, count=1) if SPEAKER.match(words) else words, set[str]()
        tool_calls = [part for part in message.parts if isinstance(part, ToolCall)]
        if message.role == "assistant" and not tool_calls:
            results.clear()
        called |= {each.name for each in tool_calls}
        calls |= {each.call: each for each in tool_calls}
        results += [
            (calls[part.call], part) for part in message.parts if isinstance(part, ToolResult) and part.call in calls
        ]
    open_ = tuple(wanted for wanted in wanted_calls(text, tools) if wanted.tool not in called)
    faults = tuple(fault for use in uses(text, tools) if (fault := fault_of(use, tools)) is not None)
    return Situation(text, open_, faults, tuple(results))


def wanted_calls(text: str, tools: Sequence[ToolSpec] = ()) -> Iterator[WantedCall]:
    """Yield the calls that *text* asks for, one of each tool: first those of *tools* that it uses by name."""
    spelled, used = list(uses(text, tools)), dict[str, WantedCall]()
    for use in spelled:
        if use.arguments is not None and fault_of(use, tools) is None:
            used.setdefault(use.tool, WantedCall(use.tool, use.arguments))
    yield from used.values()
    yield from (wanted for wanted in _of_words(without(text, spelled)) if wanted.tool not in used)


def _of_words(text: str) -> Iterator[WantedCall]:
    if match := SUM.search(text):
        yield WantedCall("calculate", {"expression": tidy(match.group())})
    if re.search(r"\btime\b", text, re.IGNORECASE):
        zone = ZONE.search(text)
        yield WantedCall("current_time", {"timezone": zone.group() if zone else "UTC"})
    yield from (WantedCall(tool, arguments) for tool, arguments in figures_asked(text))


def tidy(text: str) -> str:
    """Return the arithmetic in *text* in plain operators, with one space around each."""
    pieces: list[str] = PIECE.findall(text)
    if _unbalanced(pieces):
        pieces = [piece for piece in pieces if piece not in "()"]
    tidied, operand = "", False
    for piece in pieces:
        word = OPERATORS.get(piece.lower(), piece.replace(",", ""))
        binary = operand and word not in "()"
        tidied += f" {word} " if binary else word
        operand = word == ")" or word[0].isdigit()
    return tidied


def answer(situation: Situation, request: Request) -> str:
    """Return the whole answer, as markdown."""
    texts = [_result(call, result) for call, result in situation.results]
    texts += [_excuse(wanted, request) for wanted in situation.open]
    texts += situation.faults
    if situation.at_length:
        texts.append(essay(situation.text))
    return "\n\n".join([*texts, MARK]) if texts else help_text(request.snapshot.tools)


def help_text(tools: Sequence[ToolSpec]) -> str:
    """Return what to try with *tools*: first those that do not ship with Parley, then what the others can do."""
    names, shipped = {tool.name for tool in tools}, frozenset[str]().union(*(needs for needs, _ in SHIPPED))
    own = [f"`{sample(tool)}` calls `{tool.name}`." for tool in tools if tool.name not in shipped]
    more = [line for needs, line in SHIPPED if needs <= names]
    return HELP.replace(EXAMPLES, "".join(f"- {line}\n" for line in (*own[:LISTED], *more)))


def essay(text: str) -> str:
    """Return about 400 words on Parley; *text* determines the first section."""
    start = zlib.crc32(text.encode("utf-8", "replace")) % len(SECTIONS)
    return "\n\n".join([TITLE, *SECTIONS[start:], *SECTIONS[:start], CLOSE])


def words(text: str) -> list[str]:
    """Split *text* into words, each with the space before it; joined they are *text* again."""
    return re.findall(r"\s*\S+|\s+", text)


def _may_call(wanted: WantedCall, request: Request) -> bool:
    return wanted.tool in permitted(request.controls, [tool.name for tool in request.snapshot.tools])


def _is_there(wanted: WantedCall, request: Request) -> bool:
    return any(tool.name == wanted.tool for tool in request.snapshot.tools)


def _calls(wanted_calls: Sequence[WantedCall], request: Request) -> Iterator[tuple[ModelDelta, ...]]:
    for slot, wanted in enumerate(wanted_calls):
        raw = json.dumps(wanted.arguments)
        yield (
            ToolStart(slot, f"demo_{len(request.messages)}_{slot}", wanted.tool),
            ToolArgsDelta(slot, raw),
            ToolEnd(slot, raw, wanted.arguments),
        )


def _text_deltas(text: str) -> Iterator[tuple[ModelDelta, ...]]:
    for word in words(text):
        yield (ModelTextDelta(0, word),)


def _result(call: ToolCall, result: ToolResult) -> str:
    text = text_of(tuple(part for part in result.parts if not (isinstance(part, Text) and NOTE.match(part.text))))
    if result.outcome != "done":
        return f"The tool `{call.name}` gave no result ({result.outcome}). {text}".rstrip()
    match call.name:
        case "calculate":
            return f"{call.arguments.get('expression', 'That')} is {text}."
        case "current_time":
            return f"It is {text}."
        case "render_table" | "render_chart":
            return presented(call.name, call.arguments)
        case _:
            return f"The tool `{call.name}` answered: {text}"


def _excuse(wanted: WantedCall, request: Request) -> str:
    if _is_there(wanted, request):
        return f"This needs the tool `{wanted.tool}`, which I may not use in this step."
    return f"This needs the tool `{wanted.tool}`, which is not here."


def _unbalanced(pieces: Sequence[str]) -> bool:
    depth = 0
    for piece in pieces:
        depth += (piece == "(") - (piece == ")")
        if depth < 0:
            return True
    return depth != 0


TITLE = """\
# How this conversation works

This is a demonstration: a script recites the same few sections about Parley, and no model writes them."""
CLOSE = "That was all of it, at length."
SECTIONS = (
    """\
## One log

Everything that happens in a session is a fact in one ordered log: a message came in, a step began, a tool \
answered, a run ended. Nothing else is kept. What you see on this page is a reading of that log, and so is what \
the model sees, and so is the bill.""",
    """\
## Nothing gets lost

Reload this page now, in the middle of a sentence. The browser names the last fact that it has, the server sends \
what came after it, and the sentence goes on where it was. Because the words have offsets, none of them can \
appear twice.""",
    """\
## A step, and what it may do

1. The window is built: instructions, tools, messages.
2. The model answers, word by word, or asks for tools.
3. Tools that change nothing run side by side, the others in order.
4. Their results go back, and the next step begins.

An agent has a limit of steps. On the last one its tools are withheld, so that every run ends with an answer.""",
    """\
## Stop means stop

Closing a tab stops nothing: the run goes on, and you find its answer when you come back. The Stop button is a \
wish of its own. It reaches the worker that has the run within a second, and the words that were already said \
stay.""",
    """\
## When the process dies

Before a tool runs, the log says so; after it ran, the log says that too. A worker that takes over a broken run \
therefore knows what to repeat and what to leave alone. A tool that only reads is simply asked again. A tool that \
writes is not, unless it can tell that it has seen this very call before.""",
    """\
## A tool is a function

A tool is an ordinary Python function with types and a docstring, from which the model learns how to use it:

```python
@tool(concurrency_safe=True)
async def dice(sides: int = 6) -> int:
    \"\"\"Roll one die.\"\"\"
    return random.randint(1, sides)
```

What the model sends is held against the schema first, and a mistake is explained to it in words.""",
    """\
## Many places to talk

The same core speaks in Slack, on web pages and in a terminal. A channel only translates: what came in becomes a \
message, what the log says becomes something to look at. It may forget everything and fold the log again.""",
)
