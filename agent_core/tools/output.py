"""What a defined tool answers: mapped, bounded, as text and renders."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import msgspec
from msgspec.structs import replace

from agent_core.agents import ToolDefinition, ToolSpec
from agent_core.messages import Text, clean
from agent_core.net.sse import legible_text
from agent_core.schemas import problems
from agent_core.tools.base import CallContext, Done, Outcome, Tool, ToolError, unshown
from agent_core.tools.functions import in_thread
from agent_core.tools.jq_child import FAILED, TOO_MUCH

_CHILD = Path(__file__).with_name("jq_child.py")
SECONDS = 3.0
"""How long a program may take."""
_MEGABYTES = 256
_START_SECONDS = 5.0
"""Beyond the program's own time: a start takes a tenth of a second, on a busy machine more."""
_KEPT_NAMES = ("LD_LIBRARY_PATH",)
"""What Python itself may need of this process's environment."""
_REFUSED = re.compile(
    r"(?<![.\w$])(import|include|env|input_filename|get_search_list|modulemeta|halt|halt_error|input|inputs|debug|stderr)"
    r"\b(?!\s*:)|\$(ENV|__prog_args)\b"
)
_PLAIN_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')


class JqFailed(Exception):
    """A program that failed, or took more than it may; the message says which."""


def check(program: str) -> None:
    """Raise ValueError for a program that is empty, or asks for files, the environment or the process."""
    if not program.strip():
        raise ValueError("there is no program after `jq:`.")
    # Words in texts mean nothing, but a text may hold code, and a comment half a text: then all is looked at.
    code = program if "\\(" in program or "#" in program else _PLAIN_TEXT.sub('""', program)
    if match := _REFUSED.search(code):
        raise ValueError(f"`{match[0]}` is not available to a jq program here; it gets the tool's result and no more.")


async def run(program: str, text: str | None, seconds: float = SECONDS) -> str:
    """Return the values that *program* makes of the JSON *text*, each a line; a string is as it is. Raise JqFailed.

    Without *text* the program is compiled alone.
    """
    # A thread that stays: the process ends with the one that started it.
    spawning = asyncio.ensure_future(asyncio.to_thread(_spawn, seconds))
    job = json.dumps({"program": program, "text": text}).encode()
    try:
        process = await asyncio.shield(spawning)
    except asyncio.CancelledError:
        spawning.add_done_callback(_end)
        raise
    try:
        ended: Any = await in_thread(lambda: process.communicate(job, timeout=seconds + _START_SECONDS))
    except subprocess.TimeoutExpired:
        raise JqFailed(_slow(seconds)) from None
    finally:
        _kill(process)
    return _read(process.returncode, ended[0], ended[1], seconds)


def _read(code: int, out: bytes, err: bytes, seconds: float) -> str:
    match code:
        case 0:
            return out.decode("utf-8", "replace")
        case _ if code in (-signal.SIGXCPU, -signal.SIGALRM):
            raise JqFailed(_slow(seconds))
        case _ if code == TOO_MUCH:
            raise JqFailed("The jq program makes more than it may; take less of the result.")
        case _ if code == FAILED:
            raise JqFailed(f"The jq program failed: {err.decode('utf-8', 'replace')[:300].strip()}")
        case _:
            raise JqFailed(f"The jq program ended its process; it may take {_MEGABYTES} MB of memory.")


def _end(spawning: "asyncio.Future[subprocess.Popen[bytes]]") -> None:
    """End a process that is there once its caller has stopped waiting."""
    if not spawning.cancelled() and spawning.exception() is None:
        _kill(spawning.result())
        threading.Thread(target=spawning.result().communicate, daemon=True).start()  # closes its pipes


def _kill(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.poll()


def _slow(seconds: float) -> str:
    return f"The jq program did not end within {seconds:g} s."


def _spawn(seconds: float) -> "subprocess.Popen[bytes]":
    environment = {name: os.environ[name] for name in _KEPT_NAMES if name in os.environ} | {"TZ": "UTC"}
    return subprocess.Popen(  # noqa: S603 - our own file
        [sys.executable, "-I", str(_CHILD), str(os.getpid()), str(_MEGABYTES), str(seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        cwd="/",
        start_new_session=True,
    )


JQ = "jq:"
MAX_EXPRESSION = 500
"""Characters of an expression."""
MAX_RESULT = 1_000_000
"""Characters of what an expression may make; what the model reads of it is the tool's `result_limit`."""


class OutputFailed(ValueError):
    """An expression that cannot be applied to what the tool returned; the message says why."""


def check_output(expression: str) -> None:
    """Raise ValueError for an expression that cannot work; a jq program is only compiled when it runs."""
    if not expression.strip():
        raise ValueError("it is empty; leave it out to show the result as it is.")
    if len(expression) > MAX_EXPRESSION:
        raise ValueError(f"it has {len(expression)} characters; {MAX_EXPRESSION} are allowed.")
    if expression.startswith(JQ):
        check(expression.removeprefix(JQ))
    else:
        from agent_core.tools import jmes  # noqa: PLC0415 - brings the library: not at the start

        jmes.check(expression)


async def check_compiles(expression: str) -> None:
    """Raise `OutputFailed` for a jq program that cannot be compiled; other expressions `check_output` reads whole."""
    if expression.startswith(JQ):
        try:
            await run(expression.removeprefix(JQ), None)
        except JqFailed as error:
            raise OutputFailed(str(error)) from None


async def mapped(expression: str, text: str) -> str:
    """Return what *expression* makes of *text*, which is JSON: a string as it is, anything else as compact JSON.

    Of several values that a jq program makes each is a line. Raises `OutputFailed`.
    """
    if expression.startswith(JQ):
        try:
            return await run(expression.removeprefix(JQ), legible_text(clean(text)))
        except JqFailed as error:
            raise OutputFailed(str(error)) from None
    return await asyncio.to_thread(_mapped, expression, text)


def _mapped(expression: str, text: str) -> str:
    from agent_core.tools import jmes  # noqa: PLC0415 - as above

    try:
        value = jmes.search(expression, _output_read(text), MAX_RESULT)
        made = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except OutputFailed:
        raise
    except RecursionError:
        raise OutputFailed("The result, or the output expression, is nested too deeply.") from None
    except (ValueError, TypeError) as error:  # those of the library are ValueErrors
        raise OutputFailed(f"The output expression cannot be applied: {str(error).splitlines()[0][:200]}") from None
    if len(made) > MAX_RESULT:
        raise OutputFailed(f"The output expression makes more than {MAX_RESULT} characters.")
    return clean(made)  # JSON can escape half a character


def _output_read(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refused)
    except ValueError:
        raise OutputFailed("The tool's result is not JSON, so that its output expression cannot be applied.") from None


def _refused(name: str) -> NoReturn:
    raise ValueError(name)


_SHOWN = 100
"""Characters of an expression that an error repeats."""


class CatalogTool:
    """The tool of *definition* around *inner*, which its kind made and which has all parameters."""

    def __init__(self, definition: ToolDefinition, inner: Tool) -> None:
        self.definition, self.inner = definition, inner
        self._preset, self._output, self._parameters = definition.preset, definition.output, inner.spec.parameters
        self.spec: ToolSpec = replace(
            inner.spec, parameters=without(self._parameters, definition.preset), preset=definition.preset
        )

    async def call(self, arguments: dict[str, Any], context: CallContext) -> Outcome:
        """Run with *arguments* and the presets, checked as the definition is now: the model may know an older one."""
        presets = [name for name in self._preset if name in arguments]
        if presets:
            listed = ", ".join(f"`$.{name}`" for name in presets)
            return ToolError(f"The arguments do not fit `{self.spec.name}`: {listed}: there is no such property.")
        merged = {**arguments, **self._preset}
        if faults := problems(self._parameters, merged):
            listed = "; ".join(map(str, faults))
            return ToolError(f"The arguments do not fit `{self.spec.name}` as it is now: {listed}")
        outcome = await self.inner.call(merged, context)
        if self._output is None or not isinstance(outcome, Done):
            return outcome
        return await self._mapped(self._output, outcome)

    async def _mapped(self, expression: str, done: Done) -> Outcome:
        """Return *done* with what *expression* makes of its data, or of each text in it.

        Text that is no JSON is not shown: with `output` an author may withhold fields.
        """
        parts = list(done.parts)
        if done.data is not None:
            parts = [Text(done.data), *(part for part in parts if not isinstance(part, Text))]
        for place, part in enumerate(parts):
            if not isinstance(part, Text):
                continue
            try:
                parts[place] = Text(await mapped(expression, part.text))
            except OutputFailed as error:
                if not _is_json(part.text):
                    return unshown("it is no JSON, which the `output` of the tool is applied to")
                return unshown(f"its `output`, `{expression[:_SHOWN]}`, failed: {error}")
        return Done(tuple(parts), done.renders)


def without_new_presets(tool: Tool, frozen: ToolSpec, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return *arguments*, which fit *frozen*, without those that have become presets of *tool* since.

    The model of a conversation that froze the parameter must give it if it is required; the preset goes in its place.
    """
    if not isinstance(tool, CatalogTool):
        return arguments
    properties: dict[str, Any] = frozen.parameters.get("properties", {})
    new = properties.keys() & tool.definition.preset.keys()
    return {name: value for name, value in arguments.items() if name not in new}


def without(parameters: dict[str, Any], preset: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema *parameters* as a model sees it: without the properties that have a *preset*."""
    if not preset:
        return parameters
    properties: dict[str, Any] = parameters.get("properties", {})
    required: list[str] = parameters.get("required", [])
    left = {key: each for key, each in parameters.items() if key != "required"}
    left["properties"] = {name: each for name, each in properties.items() if name not in preset}
    names = [name for name in required if name not in preset]
    return {**left, "required": names} if names else left


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except RecursionError:  # too deep to read, so not shown; what is wrong is its depth
        return True
    except msgspec.MsgspecError:
        return False
    return True
