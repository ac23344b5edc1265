"""The command `parley-fake-models`, its script files, and what it answers without one."""

import asyncio
import signal
import socket
import sys
from contextlib import asynccontextmanager

import aiohttp
import pytest

from agent_core.testing.models.builtin import BadRules, builtin, by_rules, load, main, words
from tests.agent_core.testing.models.asking import WIRES, asking, user
from tests.cases import for_each
from tests.polling import PATIENCE

RULES = """
- match: weather
  step: 0
  answer:
    - think: They want the weather.
    - call: {name: weather, arguments: {city: Oslo}}
- {match: weather, answer: [{say: It rains.}]}
- {match: busy, answer: [{fail: rate_limited, retry_after: 2}]}
- {match: teapot, answer: [{status: 418, body: short, headers: {x-pot: 1}}]}
- {wire: chat, match: bye, answer: [{say: [By, e]}, {usage: {input: 7}}, {finish: length}]}
- {match: bytes, answer: [{split: 7}, {raw: ": x\\n\\n"}, {flat: 3, text: x}, {cut: true}]}
- match: all
  answer: [{redacted: true}, {native: {type: x}}, {call: now}, {call: {name: a, raw: "{"}}, {refuse: "No."}]
"""
TOOLS = {
    "calculate": {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
    "search": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "most": {"type": "integer"}, "kind": {"enum": ["web", "news"]}},
        "required": ["query", "most", "kind"],
    },
}


@pytest.fixture
def rules(tmp_path):
    """Write a script file and load it."""

    def made(text):
        path = tmp_path / "rules.yaml"
        path.write_text(text)
        return load(path)

    return made


def with_tools(text, wire):
    """Return a request that says *text* and has tools."""
    if wire == "messages":
        tools = [{"name": name, "input_schema": schema} for name, schema in TOOLS.items()]
    elif wire == "responses":
        tools = [{"type": "function", "name": name, "parameters": schema} for name, schema in TOOLS.items()]
    else:
        functions = [{"name": name, "parameters": schema} for name, schema in TOOLS.items()]
        tools = [{"type": "function", "function": function} for function in functions]
    return {**user(text, wire), "tools": tools}


async def test_rules_pick_the_answer(rules):
    """The first rule whose text, wire and step fit answers; without one the models echo."""
    async with asking(by_rules(rules(RULES), builtin)) as asker:
        first = await asker.ask("The WEATHER, please")
        assert [block["type"] for block in first.json["content"]] == ["thinking", "tool_use"]
        use = first.json["content"][1]
        assert use["input"] == {"city": "Oslo"}
        body = user("The WEATHER, please")
        body["messages"].append({"role": "assistant", "content": first.json["content"]})
        result = {"type": "tool_result", "tool_use_id": use["id"], "content": "rain"}
        body["messages"].append({"role": "user", "content": [result]})
        assert (await asker.ask(body)).json["content"][0]["text"] == "It rains."
        busy = await asker.ask("busy?")
        assert (busy.status, busy.headers["retry-after"]) == (429, "2")
        teapot = await asker.ask("teapot")
        assert (teapot.status, teapot.text, teapot.headers["x-pot"]) == (418, "short", "1")
        assert (await asker.ask("bye")).json["content"][0]["text"] == "You said: bye"
        bye = (await asker.ask("bye", "chat")).json
        assert (bye["choices"][0]["message"]["content"], bye["usage"]["prompt_tokens"]) == ("Bye", 7)
        pieces = await asker.stream("bytes")
        assert (pieces.text.count('"text":"x"'), "message_stop" in pieces.text) == (3, False)
        said = (await asker.ask("all")).json
        assert [block["type"] for block in said["content"]] == ["redacted_thinking", "x", "tool_use", "tool_use"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds a list of rules"),
        ("x: 1", "holds a list of rules"),
        ("- [", "is no YAML"),
        ("- 5", "rule 1: holds match, wire, step, answer, not 5"),
        ("- {answer: [{say: hi}]}\n- {answers: []}", "rule 2: unknown `answers`"),
        ("- {match: 5, answer: [{say: hi}]}", "put 5 in quotes"),
        ("- {wire: fax, answer: [{say: hi}]}", "`wire` is one of messages, responses, chat"),
        ("- {step: one, answer: [{say: hi}]}", "`step` is a number"),
        ("- {answer: []}", "`answer` is a list of items"),
        ("- {answer: [{say: hi}, {sya: hi}]}", "rule 1, item 2: unknown item `sya`; known are say"),
        ("- {answer: [hello]}", "an item is `name: value`"),
        ("- {answer: [{say: 5}]}", "`say` takes a text, or a list"),
        ("- {answer: [{call: {nam: x}}]}", "`call` takes name, arguments, raw, not `nam`"),
        ("- {answer: [{call: {arguments: {}}}]}", "`call` needs the `name`"),
        ("- {answer: [{call: {name: x, arguments: [1]}}]}", "`call` takes `arguments` by their names"),
        ("- {answer: [{fail: nope}]}", "`fail` is one of overloaded"),
        ("- {answer: [{fail: quota, when: 2}]}", "unknown `when`; known here are retry_after, message"),
        ("- {answer: [{sleep: long}]}", "`sleep` takes a number"),
        ("- {answer: [{finish: soon}]}", "`finish` is one of done"),
        ("- {answer: [{status: x}]}", "`status` takes a whole number"),
        ("- {answer: [{split: 0}]}", "`split` A piece has one byte or more"),
        ("- {answer: [{usage: {inputs: 1}}]}", "`usage` takes input, output"),
    ],
)
def test_a_bad_file_is_reported_in_one_line(rules, text, said):
    """A mistake in a script file is reported with its place and what would be right."""
    with pytest.raises(BadRules) as raised:
        rules(text)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_command_ends_with_a_bad_file(tmp_path, capsys):
    """The command says what is wrong with its script file, and ends."""
    with pytest.raises(SystemExit):
        main(["--script", str(tmp_path / "none.yaml")])
    assert "cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value", "bound"),
    [
        ("--port", "70000", "65535"),
        ("--rate", "-1", "from 0 on"),
        ("--split", "-1", "0"),
        ("--rate", "inf", "from 0 on"),
    ],
)
def test_options_have_bounds(option, value, bound, capsys):
    """An option out of its bounds is refused with the bounds."""
    with pytest.raises(SystemExit):
        main([option, value])
    refusal = capsys.readouterr().err
    assert f"Invalid value for '{option}'" in refusal
    assert bound in refusal.partition("Invalid value")[2]


def test_words_are_whole_again():
    """A text in words is the text."""
    for text in ("", "one", "one two ", " a  b"):
        assert "".join(words(text)) == text


@for_each("wire", WIRES)
@for_each(
    "text, name, arguments",
    [
        ("What is 12 * (7+1)?", "calculate", '"12 * (7+1)"'),
        ("What is 12 * 7?", "calculate", '"12 * 7"'),
        ("use search", "search", '"most"'),
        ('Please use `search` {"query": "cats"} now', "search", '"cats"'),
    ],
)
async def test_tools_are_used_on_demand(wire, text, name, arguments):
    """Without a script a sum, or `use TOOL`, calls a tool of the request, with arguments that fit."""
    async with asking(builtin) as asker:
        reply = await asker.ask(with_tools(text, wire), wire)
    assert f'"{name}"' in reply.text
    assert arguments in reply.text.replace('\\"', '"')


@for_each("wire", WIRES)
async def test_results_are_said_back(wire):
    """Without a script the models tell what the tools said."""
    async with asking(builtin) as asker:
        body = with_tools("use search", wire)
        answer = (await asker.ask(body, wire)).json
        if wire == "messages":
            result = {"type": "tool_result", "tool_use_id": answer["content"][0]["id"], "content": "cats"}
            body["messages"] += [
                {"role": "assistant", "content": answer["content"]},
                {"role": "user", "content": [result]},
            ]
        elif wire == "responses":
            result = {"type": "function_call_output", "call_id": answer["output"][0]["call_id"], "output": "cats"}
            body["input"] += [*answer["output"], result]
        else:
            message = answer["choices"][0]["message"]
            result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "cats"}
            body["messages"] += [message, result]
        assert "The tools said: cats" in (await asker.ask(body, wire)).text


async def test_the_models_echo_think_and_fail_on_demand():
    """Without a script the models echo their input, think when asked to, answer at length, and fail as asked."""
    async with asking(builtin) as asker:
        assert "You said: hello there" in (await asker.ask("hello there")).text
        assert [block["type"] for block in (await asker.ask("think!")).json["content"]] == ["thinking", "text"]
        assert len((await asker.ask("explain at length")).text) > 1000
        assert (await asker.ask("fail overloaded")).status == 529


@asynccontextmanager
async def running(*options):
    """Run the command on a free port; it gets Ctrl-C in the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from agent_core.testing.models.builtin import main; main()", "--port", "0", *options,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            head = (await process.stdout.readuntil(b"PARLEY_MODEL")).decode()
            yield head, process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.whole
async def test_the_command_serves_until_ctrl_c():
    """The command prints what to set, answers, and ends at once on Ctrl-C, streams or not."""
    async with running("--rate", "1") as (head, process):
        url = head.partition("ANTHROPIC_BASE_URL=")[2].split()[0]
        assert f"OPENAI_BASE_URL={url}/v1" in head
        async with aiohttp.ClientSession(headers={"authorization": "Bearer x"}) as http:
            body = {**user("explain at length", "chat"), "stream": True}
            async with http.post(f"{url}/v1/chat/completions", json=body) as response:
                await response.content.readuntil(b"word")
                process.send_signal(signal.SIGINT)
                async with asyncio.timeout(PATIENCE):
                    assert await process.wait() == 0
        assert process.stderr is not None
        assert await process.stderr.read() == b""


def test_a_taken_port_is_reported(capfd):
    """The command says so when its port is taken, and how to go on."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SystemExit) as raised:
        main(["--port", str(taken.getsockname()[1])])
    assert raised.value.code == 1
    assert "take another --port" in capfd.readouterr().err
