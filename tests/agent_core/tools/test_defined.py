"""A defined tool: presets that the model cannot change, the mapping of results, and what globs mean."""

from typing import Any

from msgspec.structs import replace

from agent_core.agents import DeclaredTool, Definition, ToolDefinition, ToolSpec
from agent_core.clock import SystemClock
from agent_core.messages import Actor, File, Text, text_of
from agent_core.runtime.offers import attached, names_of, offered, unmatched_globs
from agent_core.tools.base import CallContext, Done, Outcome, ToolError, unshown
from agent_core.tools.functions import tool
from agent_core.tools.output import CatalogTool
from tests.cases import for_each

PARAMETERS = {
    "type": "object",
    "properties": {"id": {"$ref": "#/$defs/id"}, "region": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["id", "region"],
    "$defs": {"id": {"type": "string", "minLength": 2}},
}
FIT = {"id": "a1", "region": "eu"}
FILE = File("f", "a.txt", "text/plain", 3)
CONTEXT = CallContext("call_1", "", "", Actor("ann", "user"), "api", SystemClock(), lambda _: None)


class Echo:
    """Returns what it is given, or *result*."""

    def __init__(self, result: Outcome | None = None) -> None:
        self.spec = ToolSpec(name="find", description="Find.", parameters=PARAMETERS, effect="read")
        self._result, self.calls = result, list[dict[str, Any]]()

    async def call(self, arguments: dict[str, Any], context: CallContext) -> Outcome:
        self.calls.append(arguments)
        return self._result or Done((Text("ok"),))


def defined(echo: Echo, **fields: Any) -> CatalogTool:
    return CatalogTool(ToolDefinition(name="find", **fields), echo)


async def test_presets_are_hidden_merged_and_cannot_be_overridden():
    """The model's schema lacks them; each call has them; an argument with the name of one does not fit."""
    echo = Echo()
    made = defined(echo, preset={"region": "eu", "limit": 3})
    assert made.spec.parameters == {**PARAMETERS, "properties": {"id": {"$ref": "#/$defs/id"}}, "required": ["id"]}
    await made.call({"id": "a1"}, CONTEXT)
    assert echo.calls == [{"id": "a1", "region": "eu", "limit": 3}]
    assert await made.call({"id": "a1", "region": "us"}, CONTEXT) == ToolError(
        "The arguments do not fit `find`: `$.region`: there is no such property."
    )
    whole = defined(echo, preset={"id": "a1", "region": "eu"})
    assert whole.spec.parameters == {
        "type": "object",
        "properties": {"limit": {"type": "integer"}},
        "$defs": PARAMETERS["$defs"],
    }
    assert len(echo.calls) == 1


async def test_arguments_of_an_older_schema_are_checked_against_the_present_one():
    """A conversation that froze another schema gets an error with the path, not a call that cannot work."""
    found = await defined(Echo()).call({"id": "a", "region": "eu"}, CONTEXT)
    assert isinstance(found, ToolError)
    assert "as it is now: $.id: 'a' is too short" in found.message


@for_each(
    "expression, result, mapped",
    [
        ("rows[].n", (Text('{"rows": [{"n": 1}, {"n": 2}]}'),), (Text("[1,2]"),)),
        ("said", (Text('{"said": "hi"}'),), (Text("hi"),)),
        (
            "n",
            (Text('{"n": 1}'), File("f", "a.txt", "text/plain", 3)),
            (Text("1"), File("f", "a.txt", "text/plain", 3)),
        ),
    ],
)
async def test_a_result_is_mapped(expression: str, result: Any, mapped: Any):
    """Texts are mapped; files stay."""
    assert await defined(Echo(Done(result)), output=expression).call(FIT, CONTEXT) == Done(mapped)


@for_each(
    "expression, text",
    [
        ("{status: status}", '{"status": 1, "ssn": "123-45", "x": NaN}'),
        ("{status: status}", "ssn 123-45"),
        ("jq:{status}", "ssn 123-45"),
    ],
)
async def test_an_answer_that_cannot_be_mapped_is_withheld(expression: str, text: str):
    """Of what is no JSON no word is shown, as the author may have chosen what is; the call was made all the same."""
    found = await defined(Echo(Done((Text(text),))), output=expression).call(FIT, CONTEXT)
    assert found == unshown("it is no JSON, which the `output` of the tool is applied to")


async def test_a_mapping_that_fails_names_the_expression():
    """The model reads which expression failed and why; a failed call is not mapped."""
    failed = await defined(Echo(Done((Text('{"n": 1}'),))), output="sum(n)").call(FIT, CONTEXT)
    assert isinstance(failed, Done)
    assert text_of(failed.parts).startswith("It ran; its result cannot be shown (its `output`, `sum(n)`, failed:")
    deep = await defined(Echo(Done((Text("[" * 100_000 + "]" * 100_000),))), output="n").call(FIT, CONTEXT)
    assert isinstance(deep, Done)
    assert "nested too deeply" in text_of(deep.parts)
    error = ToolError("down")
    assert await defined(Echo(error), output="n").call(FIT, CONTEXT) == error


KNOWN = ("calculate", "call_tool", "orders_get", "orders_list", "render_chart", "render_table")
WHERE = DeclaredTool(name="orders_list", kind="client", description="Where?", parameters={"type": "object"})


@for_each(
    "listed, found",
    [
        (("orders_*",), ["orders_get", "orders_list"]),
        (("orders_list", "o*"), ["orders_list", "orders_get"]),
        (("o*", "orders_*", "*_get"), ["orders_get", "orders_list"]),
        (("*",), ["calculate", "orders_get", "orders_list"]),
        (("*", WHERE), ["orders_list", "calculate", "orders_get"]),
        (("[ab]?lculate",), []),
        (("render_table", "re*"), ["render_table"]),
    ],
)
def test_globs_mean_the_tools_that_are_there(listed: Any, found: list[str]):
    """Sorted, each once, after exact names; never the render tools or those of the router."""
    assert names_of(attached(Definition(name="a", instructions="b", tools=listed), KNOWN)) == found


def test_a_glob_brings_no_render_tool_back():
    """With `include_render` off `*` offers none; a glob that means nothing is known by name."""

    @tool
    def render_table() -> str:
        """Show."""
        return ""

    known = {name: replace_name(render_table, name) for name in KNOWN}
    made = Definition(name="a", instructions="b", tools=("*", "nothing_*"))
    names = [spec.name for spec in offered(made, known, include_render=False)]
    assert names == ["calculate", "orders_get", "orders_list"]
    assert unmatched_globs(made, known) == ["nothing_*"]


def replace_name(known: Any, name: str) -> Any:
    return type(known)(replace(known.spec, name=name), known.function, known.signature)
