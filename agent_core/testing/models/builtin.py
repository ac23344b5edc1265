"""What the fake models answer without a script: they echo, use tools when asked to, and fail on demand."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from agent_core.messages import KINDS
from agent_core.testing.models.asked import ModelCall
from agent_core.testing.models.items import Answer
from agent_core.testing.models.prefix import Json, dicts
from agent_core.testing.models.rulefile import words
from agent_core.testing.script import call, fail, flat, say, think

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
