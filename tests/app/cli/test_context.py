"""Who asks in the terminal, as the tools see it."""

import json
from typing import Any

import httpx
import pytest

from agent_core.clock import SystemClock
from agent_core.core import Core
from agent_core.errors import InvalidInput
from agent_core.messages import Actor
from agent_core.testing import FakeClock, ScriptedProvider, by_step, call, say
from app.cli.chat.command import ContextOption, ContextPort, context_option
from app.cli.chat.piped import answer
from app.cli.client import Client
from app.cli.remote import Remote
from app.settings import Settings, load_settings
from channels.terminal import Terminal
from parley import CallContext, tool
from tests.app.processes import Shell
from tests.cases import for_each

ANN = Actor("ann", "user", "Ann")
LOOK_UP = """\
from parley import CallContext, tool


@tool
def whose(context: CallContext) -> str:
    \"\"\"Say whose orders are shown.\"\"\"
    return f"those of {context.tool_context.get('customer')}"
"""
AGENT = "name: assistant\ninstructions: Help.\ntools: [whose]\n"


def terminal() -> Terminal:
    return Terminal(ANN, write=lambda _: None, note=lambda _: None, live=False)


def settings(monkeypatch: pytest.MonkeyPatch, **env: str) -> Settings:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return load_settings(None, serving=False)


async def test_tools_are_given_who_asks_in_the_terminal(make_core):
    """Each message of the terminal brings its `tool_context` to the tools, in place of the agent's own."""
    seen: list[Any] = []

    @tool
    def whose(context: CallContext) -> str:
        """Say whose."""
        seen.append(dict(context.tool_context))
        return "theirs"

    steps = by_step((call("whose"),), (say("Theirs."),))
    core: Core = await make_core(ScriptedProvider(steps), tools=[whose], definition={"tools": ("whose",)})
    session = (await core.open_session(agent="assistant", actor=ANN)).id
    assert await answer(ContextPort(core, {"customer": "C-1"}), terminal(), SystemClock(), session, "Mine?")
    assert seen == [{"customer": "C-1"}]


async def test_over_http_it_comes_with_the_message():
    """To a server the `tool_context` is sent in the message's `controls`; without one there are none."""
    sent: list[dict[str, Any]] = []

    def take(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        return httpx.Response(202, json={"message_id": "msg_1", "run_id": "run_1", "seq": 3})

    http = httpx.AsyncClient(transport=httpx.MockTransport(take), base_url="http://parley.test")
    remote, inbound = Remote(Client(http), FakeClock()), terminal().parse("Mine?")
    assert inbound is not None
    await ContextPort(remote, {"customer": "C-1"}).receive("ses_1", inbound)  # type: ignore[arg-type]
    await remote.receive("ses_1", inbound)  # type: ignore[arg-type]
    assert sent[0]["controls"] == {"tool_context": {"customer": "C-1"}}
    assert "controls" not in sent[1]


@for_each("given", ["customer=C-1", '["C-1"]', "[" * 100_000])
def test_what_is_no_object_is_refused(given, monkeypatch):
    """`--tool-context` takes a JSON object; the error names the option, and does not repeat what was given."""
    with pytest.raises(InvalidInput, match=r"--tool-context.* write one JSON object") as error:
        context_option(given, settings(monkeypatch))
    assert "C-1" not in str(error.value).replace('{"customer": "C-1"}', "")


def test_the_option_then_the_demo_page(monkeypatch):
    """Without the option the terminal asks as the demo page does, but not at a server that PARLEY_URL names."""
    own = settings(monkeypatch, PARLEY_DEMO_TOOL_CONTEXT='{"customer": "C-1"}')
    assert context_option(None, own) == ContextOption({"customer": "C-1"}, "PARLEY_DEMO_TOOL_CONTEXT")
    assert context_option("{}", own).tool_context == {}
    assert context_option('{"customer": "C-2"}', own).tool_context == {"customer": "C-2"}
    there = settings(monkeypatch, PARLEY_URL="https://parley.example.com")
    assert context_option(None, there).tool_context == {}


def test_a_conversation_begins_with_the_names_alone():
    """The screen names what the tools are given and where it comes from, and never a value: it may be a secret."""
    shown = ContextOption({"customer": "C-1", "token": "s3cret"}, "PARLEY_DEMO_TOOL_CONTEXT").greeting
    assert shown.endswith("(the tools get `customer`, `token` from PARLEY_DEMO_TOOL_CONTEXT)")
    assert "tools" not in ContextOption().greeting
    assert "s3cret" not in repr(ContextOption({"token": "s3cret"}))


@pytest.mark.whole
async def test_parley_chat_gives_tools_who_asks(shell: Shell):
    """`parley chat` in a project answers as the demo page does; `--tool-context` says another customer."""
    for path, text in (("tools/own.py", LOOK_UP), ("agents/assistant.yaml", AGENT)):
        (shell.folder / path).parent.mkdir(exist_ok=True)
        (shell.folder / path).write_text(text, "utf-8")
    env = {"PARLEY_AGENTS": "agents", "PARLEY_DEMO_TOOL_CONTEXT": '{"customer": "C-1"}'}
    code, out, err = await shell.run("chat", "use whose {}", **env)
    assert (code, "those of C-1" in out) == (0, True), err
    code, out, err = await shell.run("chat", "--tool-context", '{"customer": "C-2"}', "use whose {}", **env)
    assert (code, "those of C-2" in out) == (0, True), err
