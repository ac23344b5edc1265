"""What a tool returned, mapped by the `output` of its definition: a JMESPath expression, or `jq:` and a jq program."""

import asyncio
import json
from typing import Any, NoReturn

from agent_core.messages import clean
from agent_core.net.sse import legible_text

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
        from agent_core.tools.mapping import jq  # noqa: PLC0415 - only a definition with jq needs it

        jq.check(expression.removeprefix(JQ))
    else:
        from agent_core.tools.mapping import jmes  # noqa: PLC0415 - brings the library: not at the start

        jmes.check(expression)


async def check_compiles(expression: str) -> None:
    """Raise `OutputFailed` for a jq program that cannot be compiled; other expressions `check_output` reads whole."""
    if expression.startswith(JQ):
        from agent_core.tools.mapping import jq  # noqa: PLC0415 - as above

        try:
            await jq.run(expression.removeprefix(JQ), None)
        except jq.JqFailed as error:
            raise OutputFailed(str(error)) from None


async def mapped(expression: str, text: str) -> str:
    """Return what *expression* makes of *text*, which is JSON: a string as it is, anything else as compact JSON.

    Of several values that a jq program makes each is a line. Raises `OutputFailed`.
    """
    if expression.startswith(JQ):
        from agent_core.tools.mapping import jq  # noqa: PLC0415 - as above

        try:
            return await jq.run(expression.removeprefix(JQ), legible_text(clean(text)))
        except jq.JqFailed as error:
            raise OutputFailed(str(error)) from None
    return await asyncio.to_thread(_mapped, expression, text)


def _mapped(expression: str, text: str) -> str:
    from agent_core.tools.mapping import jmes  # noqa: PLC0415 - as above

    try:
        value = jmes.search(expression, _read(text), MAX_RESULT)
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


def _read(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refused)
    except ValueError:
        raise OutputFailed("The tool's result is not JSON, so that its output expression cannot be applied.") from None


def _refused(name: str) -> NoReturn:
    raise ValueError(name)
