"""`parley-fake-models`: the command, scripts as YAML, and the built-in answers."""

import asyncio
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer
import uvloop
import yaml

from agent_core.messages import KINDS
from agent_core.providers.base import FinishReason
from agent_core.testing import scripted as script
from agent_core.testing.clock import serve
from agent_core.testing.models import asked as items
from agent_core.testing.models.asked import Answer, ModelCall, Wire
from agent_core.testing.models.caching import Json, dicts
from agent_core.testing.models.server import FakeModels, Options
from agent_core.testing.scripted import call, fail, flat, say, think

WIRES: tuple[str, ...] = get_args(Wire)
REASONS: tuple[str, ...] = get_args(FinishReason)
_TOKENS = ("input", "output", "reasoning", "cache_read", "cache_write_short", "cache_write_long")


class BadRules(ValueError):
    """The file of rules cannot be played; the text names the place and the remedy."""


@dataclass(frozen=True, slots=True)
class Rule:
    """An answer for the requests that contain *match*, come by *wire*, and are at *step*; None fits every one."""

    answer: items.Answer
    match: str | None = None
    wire: str | None = None
    step: int | None = None

    def fits(self, call: ModelCall) -> bool:
        return (
            (self.match is None or self.match.lower() in call.text.lower())
            and self.wire in (None, call.wire)
            and self.step in (None, call.step)
        )


def load(path: Path) -> list[Rule]:
    """Return the rules in the file at *path*; raises `BadRules`."""
    try:
        content: object = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadRules(f"{path}: cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise BadRules(f"{path}: is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, list) or not content:
        raise BadRules(f"{path}: holds a list of rules, such as `- answer: [{{say: Hello!}}]`.")
    return [_rule(f"{path}: rule {n}", each) for n, each in enumerate(cast("list[object]", content), 1)]


def by_rules(rules: list[Rule], otherwise: Callable[[ModelCall], items.Answer]) -> Callable[[ModelCall], items.Answer]:
    """Return the script that gives the answer of the first rule that fits, else that of *otherwise*."""

    def pick(call: ModelCall) -> items.Answer:
        return next((rule.answer for rule in rules if rule.fits(call)), None) or otherwise(call)

    return pick


def _rule(where: str, value: object) -> Rule:
    rule = _object(where, value, ("match", "wire", "step", "answer"))
    match, wire, step = rule.get("match"), rule.get("wire"), rule.get("step")
    if match is not None and not isinstance(match, str):
        raise BadRules(f"{where}: `match` is a text that the newest message contains; put {match!r} in quotes.")
    if wire is not None and wire not in WIRES:
        raise BadRules(f"{where}: `wire` is one of {', '.join(WIRES)}, not {wire!r}.")
    if step is not None and (not isinstance(step, int) or step < 0):
        raise BadRules(f"{where}: `step` is a number from 0 on, not {step!r}.")
    answer = rule.get("answer")
    if not isinstance(answer, list) or not answer:
        raise BadRules(f"{where}: `answer` is a list of items, such as `[{{say: Hello!}}]`.")
    given_items = cast("list[object]", answer)
    return Rule(tuple(_item(f"{where}, item {n}", each) for n, each in enumerate(given_items, 1)), match, wire, step)


def _item(where: str, entry: object) -> items.Item:
    """Make one item: the first key names it, the others belong to it."""
    if not isinstance(entry, dict) or not entry:
        raise BadRules(f"{where}: an item is `name: value`, such as `say: Hello!`; known are {', '.join(_MAKERS)}.")
    item = cast("Json", entry)
    name = next((key for key in item if key in _MAKERS), None)
    if name is None:
        raise BadRules(f"{where}: unknown item `{next(iter(item))}`; known are {', '.join(_MAKERS)}.")
    make, more = _MAKERS[name]
    others = _object(where, {key: value for key, value in item.items() if key != name}, more)
    try:
        return make(item[name], others)
    except (TypeError, ValueError, KeyError) as error:
        raise BadRules(f"{where}: `{name}` {error}") from error


def _object(where: str, value: object, fields: tuple[str, ...]) -> Json:
    if not isinstance(value, dict):
        raise BadRules(f"{where}: holds {', '.join(fields)}, not {value!r}.")
    rule = cast("Json", value)
    if unknown := [str(key) for key in rule if key not in fields]:
        raise BadRules(f"{where}: unknown `{unknown[0]}`; known here are {', '.join(fields) or 'no others'}.")
    return rule


def words(text: str) -> tuple[str, ...]:
    """Cut *text* into words, each with the space after it: the pieces in which models stream."""
    parts = text.split(" ")
    return tuple(f"{part} " for part in parts[:-1]) + ((parts[-1],) if parts[-1] or len(parts) == 1 else ())


def _pieces(value: Any) -> tuple[str, ...]:
    """Take a list as the pieces themselves, a text as its words."""
    if isinstance(value, str):
        return words(value)
    if isinstance(value, list) and all(isinstance(each, str) for each in cast("list[object]", value)):
        return tuple(cast("list[str]", value))
    raise TypeError(f"takes a text, or a list of the pieces it comes in, not {value!r}.")


def _call(value: Any, _: Json) -> items.Item:
    if isinstance(value, str):
        return script.call(value)
    fields = _of(value, ("name", "arguments", "raw"))
    if not isinstance(fields.get("name"), str):
        raise TypeError("needs the `name` of a tool.")
    if "raw" in fields:
        return script.raw_call(fields["name"], str(fields["raw"]))
    arguments: object = fields.get("arguments") or {}
    if not isinstance(arguments, dict):
        raise TypeError(f"takes `arguments` by their names, not {arguments!r}.")
    return script.call(fields["name"], **cast("Json", arguments))


def _fail(value: Any, more: Json) -> items.Item:
    wait, message = more.get("retry_after"), more.get("message")
    kind = _one_of(value, KINDS)
    return script.fail(kind, retry_after=_number(wait) if wait is not None else None, **_without_none(message=message))


def _status(value: Any, more: Json) -> items.Item:
    headers = cast("Mapping[str, object]", more.get("headers") or {})
    return items.status(_whole(value), str(more.get("body", "")), {key: str(each) for key, each in headers.items()})


def _usage(value: Any, _: Json) -> items.Item:
    return script.usage(**{key: _whole(each) for key, each in _of(value, _TOKENS).items()})


def _flat(value: Any, more: Json) -> items.Item:
    return script.flat(_whole(value), rate=_number(more.get("rate", 0)), **_without_none(text=more.get("text")))


def _of(value: Any, fields: tuple[str, ...]) -> Json:
    if not isinstance(value, dict):
        raise TypeError(f"takes {', '.join(fields)}, not {value!r}.")
    members = cast("Json", value)
    if unknown := [key for key in members if key not in fields]:
        raise TypeError(f"takes {', '.join(fields)}, not `{unknown[0]}`.")
    return members


def _one_of(value: Any, choices: tuple[str, ...]) -> Any:
    if value not in choices:
        raise ValueError(f"is one of {', '.join(choices)}, not {value!r}.")
    return value


def _number(value: Any) -> float:
    if not isinstance(value, (int, float)) or value < 0:
        raise TypeError(f"takes a number from 0 on, not {value!r}.")
    return float(value)


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"takes a whole number from 0 on, not {value!r}.")
    return value


def _without_none(**values: Any) -> Json:
    return {key: str(value) for key, value in values.items() if value is not None}


_Maker = Callable[[Any, Json], items.Item]
_MAKERS: Mapping[str, tuple[_Maker, tuple[str, ...]]] = {
    "say": (lambda value, _: script.say(*_pieces(value)), ()),
    "think": (lambda value, _: script.think(*_pieces(value)), ()),
    "redacted": (lambda _, __: items.redacted(), ()),
    "call": (_call, ()),
    "refuse": (lambda value, _: script.refuse(str(value)), ()),
    "usage": (_usage, ()),
    "sleep": (lambda value, _: script.sleep(_number(value)), ()),
    "finish": (lambda value, _: script.finish(_one_of(value, REASONS)), ()),
    "fail": (_fail, ("retry_after", "message")),
    "cut": (lambda _, __: script.cut(), ()),
    "stall": (lambda _, __: items.stall(), ()),
    "split": (lambda value, _: items.split(_whole(value)), ()),
    "native": (lambda value, _: items.native(dict(value)), ()),
    "raw": (lambda value, _: items.raw(str(value).encode()), ()),
    "status": (_status, ("body", "headers")),
    "flat": (_flat, ("rate", "text")),
}


_SUM = re.compile(r"(?=[\d(])[\d\s.()]*\d[\s)]*[-+*/][-+*/\s\d.()]*[\d)]")
_LONG = 400
_SHOWN = 2000
_SAMPLES: Mapping[str, object] = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}


def builtin(request: ModelCall) -> Answer:
    """Answer *request*.

    `fail KIND` fails so; a sum, or `use TOOL {…}`, calls a tool that the request has; `think` thinks first, `at length`
    is long; everything else is said back.
    """
    text = request.text
    if match := re.search(rf"\bfail ({'|'.join(KINDS)})\b", text):
        return [fail(cast("Any", match[1]))]
    thought = [think(*words("The user wants me to think, so I do."))] if "think" in text.lower() else []
    if request.step:
        return [*thought, say(*words(f"The tools said: {'; '.join(_results(request)) or 'nothing'}"))]
    if (made := _called(text, dict(_tools(request)))) is not None:
        return [*thought, call(made[0], **made[1])]
    if "at length" in text.lower():
        return [*thought, flat(_LONG)]
    return [*thought, say(*words(f"You said: {text[:_SHOWN]}" if text else "You said nothing."))]


def _called(text: str, tools: Mapping[str, Json]) -> tuple[str, Json] | None:
    """Return the tool that *text* asks for, with its arguments."""
    for name, schema in tools.items():
        if match := re.search(rf"\buse `?{re.escape(name)}\b`?(.*)", text, re.IGNORECASE | re.DOTALL):
            return name, _arguments(match[1], schema)
    match = _SUM.search(text)
    fitting = (name for name, schema in tools.items() if "expression" in (schema.get("properties") or {}))
    name = next(fitting, None)
    return (name, {"expression": match[0]}) if match and name else None


def _arguments(text: str, schema: Json) -> Json:
    """Return the JSON object at the start of *text*, else something for each argument that *schema* requires."""
    start = text.find("{")
    if start >= 0:
        try:
            arguments, _ = json.JSONDecoder().raw_decode(text, start)
        except ValueError:
            arguments = None
        if isinstance(arguments, dict):
            return cast("Json", arguments)
    properties = cast("Json", schema.get("properties") or {})
    return {name: _sample(cast("Json", properties.get(name) or {}), text) for name in schema.get("required") or ()}


def _sample(schema: Json, text: str) -> object:
    if values := schema.get("enum"):
        return values[0]
    return _SAMPLES.get(str(schema.get("type")), text.strip() or "something")


def _tools(request: ModelCall) -> Iterator[tuple[str, Json]]:
    """Give name and schema of each tool of the request."""
    for tool in dicts(request.body.get("tools")):
        function = cast("Json", tool.get("function") or tool)
        if isinstance(name := function.get("name"), str):
            yield name, cast("Json", function.get("input_schema") or function.get("parameters") or {})


def _results(request: ModelCall) -> list[str]:
    """Return what the tools said since the newest text of the user."""
    results: list[str] = []
    for item in reversed(dicts(request.body.get("input" if request.wire == "responses" else "messages"))):
        parts = dicts(item.get("content"))
        if item.get("role") == "user" and not any(part.get("type") == "tool_result" for part in parts):
            break
        if item.get("type") == "function_call_output":
            results.insert(0, _content_text(item.get("output")))
        elif item.get("role") == "tool":
            results.insert(0, _content_text(item.get("content")))
        else:
            results[:0] = [_content_text(part.get("content")) for part in parts if part.get("type") == "tool_result"]
    return results


def _content_text(content: object) -> str:
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text")) for part in dicts(content) if part.get("text"))


NAME = "parley-fake-models"
_FAILED = 2
_SETTINGS = """\
Fake models at {url}; Ctrl-C ends them. Any key is good but `bad-key`.

  ANTHROPIC_BASE_URL={url}
  ANTHROPIC_API_KEY=fake
  OPENAI_BASE_URL={url}/v1
  OPENAI_API_KEY=fake
  PARLEY_MODEL=anthropic:claude-sonnet-5-5   (or openai:gpt-6.1-sol, openai-compatible:any)

"""


def _rate(rate: float) -> float:
    if not 0 <= rate < float("inf"):
        raise typer.BadParameter(f"a rate is a number from 0 on, not {rate:g}")
    return rate


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command with *arguments*, else those of the process; raises SystemExit with its exit code."""
    command = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    command.command()(fake_models)
    command(arguments, prog_name=NAME)


def fake_models(
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Listen on this port; 0 takes a free one.")] = 4010,
    rate: Annotated[float, typer.Option(callback=_rate, help="Deltas a second; 0 is flat out.")] = 50.0,
    script: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Rules in YAML; without them the models echo.")
    ] = None,
    split: Annotated[int, typer.Option(min=0, metavar="BYTES", help="Write streams in pieces of this size.")] = 0,
    lenient: Annotated[bool, typer.Option("--lenient", help="Check neither requests nor thinking.")] = False,
    fast: Annotated[bool, typer.Option("--fast", help="Check nothing and count no cache: for measurements.")] = False,
) -> None:
    """Serve fake models on 127.0.0.1 until Ctrl-C."""
    try:
        rules = by_rules(load(script), builtin) if script else builtin
    except BadRules as error:
        sys.stderr.write(f"{NAME}: {error}\n")
        raise typer.Exit(_FAILED) from None
    check = not (fast or lenient)
    options = Options(split=split)
    fake = FakeModels(rules, port=port, rate=rate, record=False, check=check, cache=not fast, options=options)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(NAME, fake, lambda fake: _SETTINGS.format(url=fake.url)))
