"""The `output` of a definition: what it makes of a tool's result, and what it may cost."""

import asyncio
import json
import os

import pytest

from agent_core.tools import output
from agent_core.tools.output import MAX_RESULT, OutputFailed, check_output, mapped
from tests.cases import for_each
from tests.polling import until

pytestmark = pytest.mark.processes

ORDERS = json.dumps(
    {
        "orders": [{"id": 12345678901234567890123, "who": "Zoë", "open": True}, {"id": 2, "who": "Ann", "open": False}],
        "note": "two",
    }
)


@for_each(
    "expression, made",
    [
        ("note", "two"),
        ("orders[?open].{id: id, who: who}", '[{"id":12345678901234567890123,"who":"Zoë"}]'),
        ("length(orders)", "2"),
        ("nothing.here", "null"),
        ("join(', ', orders[].who)", "Zoë, Ann"),
        ("jq:.orders[] | select(.open) | {who}", '{"who":"Zoë"}'),
        ("jq:.orders[].who", "Zoë\nAnn"),
        ("jq:empty", ""),
    ],
)
async def test_an_expression_makes_text_of_json(expression, made):
    """A string is as it is, anything else compact JSON, and of several values of jq each is a line."""
    check_output(expression)
    assert await mapped(expression, ORDERS) == made


@for_each(
    "expression, says",
    [
        (" ", "empty"),
        ("a" * 501, "501 characters"),
        ("orders[", "no JMESPath"),
        ("shout(note)", "`shout` is no function"),
        ("orders[?shout(who)]", "`shout` is no function"),
        ("jq:", "no program"),
        ("jq:$ENV.HOME", "`$ENV`"),
        ("jq:env | keys", "`env`"),
        ('jq:import "secrets" as $d; $d', "`import`"),
        ('jq:"\\(env)"', "`env`"),
        ('jq:# "\nenv # "', "`env`"),
        ("jq:input_filename", "`input_filename`"),
    ],
)
def test_an_expression_that_cannot_work_is_refused_at_once(expression, says):
    """What is wrong with an expression is said when it is saved."""
    with pytest.raises(ValueError, match=says.replace("$", r"\$")):
        check_output(expression)


@for_each("program", [".env", ".include.import", '"env"', "{env: .x}", "[.inputs[]]"])
def test_a_field_may_have_a_refused_word_as_its_name(program):
    """Fields, keys and texts may be called like what a program may not use."""
    check_output(f"jq:{program}")


@for_each(
    "expression, text, says",
    [
        ("a", "no json", "not JSON"),
        ("a", '{"a": NaN}', "not JSON"),
        ("a", '{"a": "x"', "not JSON"),
        ("length(a)", '{"a": 1}', "cannot be applied"),
        ("&a", "{}", "cannot be applied"),
        ("a", "[" * 100_000 + "]" * 100_000, "nested too deeply"),
        ("jq:.a | error", '{"a": "why"}', "why"),
        ("jq:.a |", "{}", "syntax error"),
        ("jq:.a", "no json", "failed"),
        ("jq:.a", "[" * 100_000 + "]" * 100_000, "nested too deeply"),
    ],
)
async def test_a_result_that_does_not_fit_its_expression_is_a_named_failure(expression, text, says):
    """The failure says what is wrong, and is of one kind."""
    with pytest.raises(OutputFailed, match=says):
        await mapped(expression, text)


@for_each(
    "expression",
    [
        "|".join(["join('',[@,@])"] * 33),
        "|".join(["[@,@]"] * 80),
        "|".join(["[@,@]"] * 78) + "|to_string(@)",
        "|".join(["[@,@]"] * 60) + "|@==@",
        "|".join(["[@,@][]"] * 50),
        "|".join(["{a:@,b:@}"] * 45),
        "|".join(["map(&[@,@],[@,@])"] * 25),
    ],
)
async def test_an_expression_that_doubles_its_value_ends_soon(expression):
    """Growing by doubling is stopped long before it takes the memory."""
    check_output(expression)
    with pytest.raises(OutputFailed, match="more than"):
        await mapped(expression, json.dumps("x" * 1000))


async def test_a_large_result_leaves_the_event_loop_free():
    """Mapping a large result is done beside the event loop."""
    text = json.dumps([{"id": n, "tags": ["a", "b"]} for n in range(10_000)])
    work = asyncio.ensure_future(mapped("length([?id > `9990`])", text))
    beats = 0
    while not work.done():
        await asyncio.sleep(0)
        beats += 1
    assert (await work, beats > 5) == ("9", True)


async def test_a_result_may_be_so_large_and_no_larger():
    """What an expression makes is bounded too."""
    with pytest.raises(OutputFailed, match="more than"):
        await mapped("@", json.dumps(["x"] * (MAX_RESULT // 2)))


@for_each("expression", ["@", "jq:."])
async def test_half_a_character_is_replaced(expression):
    """What JSON can escape and no text can hold becomes U+FFFD."""
    assert await mapped(expression, '"a\\ud800b"') == "a\ufffdb"


@for_each(
    "program, says",
    [
        ("last(range(1e12))", "did not end within 0.2 s"),
        ('[limit(60; repeat("x" * 30000))][]', "more than it may"),
        ('"x" * 1000000000', "256 MB of memory"),
    ],
)
async def test_a_program_that_takes_too_much_ends_alone(program, says):
    """A jq program that never ends, or takes all memory, is killed, and only it."""
    with pytest.raises(output.JqFailed, match=says):
        await output.run(program, "1", seconds=0.2 if "last" in program else 3)


async def test_a_program_reads_no_file_and_no_environment(tmp_path, monkeypatch):
    """What the check does not see the process has not: neither files nor this process's environment."""
    (tmp_path / "d.json").write_text('"from a file"')
    monkeypatch.setenv("PARLEY_MADE_UP", "from the environment")
    with pytest.raises(output.JqFailed):
        await output.run(f'import "d" as $d {{search:"{tmp_path}"}}; $d', "1")
    assert "MADE_UP" not in await output.run("$ENV | keys", "1")


async def test_a_call_that_is_cancelled_leaves_no_process(monkeypatch):
    """When the caller stops waiting the program's process is killed at once."""
    started = []
    spawn = output._spawn
    monkeypatch.setattr(output, "_spawn", lambda seconds: started.append(spawn(seconds)) or started[0])
    work = asyncio.ensure_future(mapped("jq:last(range(1e12))", "1"))
    await until(lambda: bool(started))
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    await asyncio.to_thread(started[0].wait)
    with pytest.raises(ProcessLookupError):
        os.kill(started[0].pid, 0)
