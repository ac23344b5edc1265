"""Tools that a person has the demo provider use by their names."""

from tests.agent_core.providers.demo_asked import TOOLS, asked, calls, result, text, user
from tests.cases import for_each


@for_each(
    "said, arguments",
    [
        ('use lookup_order {"order": "A-1001"}', {"order": "A-1001"}),
        ('Please use `lookup_order` {"order": "at 5-3", "more": {"a": [1, "}"]}}, thank you.', None),
        ('USE lookup_order: {"order":"A","most":3}', {"order": "A", "most": 3}),
        ("use lookup_order", {}),
        ("could you use lookup_order?", {}),
    ],
)
async def test_any_tool_of_the_agent_is_used_by_its_name(said, arguments):
    """`use NAME {…}` calls that tool with those arguments, and nothing in them is taken for another wish."""
    expected = {"order": "at 5-3", "more": {"a": [1, "}"]}} if arguments is None else arguments
    assert await calls(user(said), tools=(*TOOLS, "lookup_order")) == {"lookup_order": expected}


async def test_several_tools_are_used_in_one_step():
    """Uses and other wishes of one message are called together, each tool once."""
    said = 'use dice {"sides": 6} and use lookup_order {}, use dice {"sides": 20}; what is 2 + 2?'
    found = await calls(user(said), tools=(*TOOLS, "dice", "lookup_order"))
    assert found == {"dice": {"sides": 6}, "lookup_order": {}, "calculate": {"expression": "2 + 2"}}
    assert list(found) == ["dice", "lookup_order", "calculate"]


@for_each(
    "said, fault",
    [
        ("use lookup_ordr {}", "There is no tool `lookup_ordr`; I can use `calculate`, `lookup_order`."),
        ("use  nothing", "There is no tool `nothing`; I can use `calculate`, `lookup_order`."),
        ('use lookup_order {"order": }', "no JSON object (Expecting value, character 11)"),
        ('use lookup_order {"order": "A-1001"', "no JSON object (Expecting ',' delimiter, character 19)"),
        ("use lookup_order {“order”: 1}", "in double quotes, character 2)"),
        ('use lookup_order {"order": NaN}', "no JSON object (it cannot be read)"),
        ('use lookup_order {"order": "\\ud800"}', "no JSON object (it cannot be read)"),
        ("use lookup_order " + '{"a":' * 5_000, "no JSON object (it cannot be read)"),
    ],
)
async def test_a_use_that_cannot_be_is_explained(said, fault):
    """A name that is no tool is answered with those that are, arguments that are no JSON with an example of some."""
    tools = ("calculate", "lookup_order")
    assert await calls(user(said), tools=tools) == {}
    answered = await text(user(said), tools=tools)
    assert fault in answered
    if "JSON" in fault:
        assert 'Write it like this: `use lookup_order {"order": "…", "by": "day"}`.' in answered


async def test_a_use_beside_a_fault_is_still_called():
    """What can be used is used; the answer has its result and the fault of the other."""
    said = user('use dice {}, use lookup_order {"a"')
    tools = ("dice", "lookup_order")
    assert await calls(said, tools=tools) == {"dice": {}}
    answered = await text(said, asked("dice"), result("dice", "six"), tools=tools)
    assert answered.startswith("The tool `dice` answered: six\n\nWhat follows `use lookup_order` is no JSON object")


@for_each("said", ["I use python at work", "use it or lose it", "house lookup_order {}", "use"])
async def test_the_word_use_alone_calls_nothing(said):
    """A sentence that has the word, and names no tool, gets the help text."""
    assert await calls(user(said), tools=("lookup_order",)) == {}
    assert "Try one of these" in await text(user(said), tools=("lookup_order",))


async def test_the_help_text_has_the_tools_of_the_agent():
    """The help text shows how each tool of one's own is used, then what those do that ship and that the agent has."""
    shown = await text(user("hello"), tools=("current_time", "lookup_order"))
    first, *lines = [line for line in shown.splitlines() if line.startswith("- ")]
    assert first == '- `use lookup_order {"order": "…", "by": "day"}` calls `lookup_order`.'
    assert any("`What time is it in Europe/Berlin?`" in line for line in lines)
    assert "calculate" not in shown
    assert "sample table" not in shown
    assert "calculate" in await text(user("hello"), tools=TOOLS)
    assert "{{" not in shown
    assert "docs/" not in shown
