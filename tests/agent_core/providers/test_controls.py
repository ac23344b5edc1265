"""Controls on the wires: how each says what may be called, and what form an answer has, by the SDKs' own types."""

import json
from typing import Any

import msgspec
from anthropic.types import OutputConfigParam, ToolChoiceParam
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter

from agent_core.agent.snapshot import freeze
from agent_core.agent.window import WindowEntry
from agent_core.agents import ToolSpec
from agent_core.controls import Abilities, Controls, NamedTool
from agent_core.messages import Message, Text
from agent_core.providers.anthropic import anthropic, body_of, prefix_of
from agent_core.providers.base import Provider, Request
from agent_core.providers.compatible import compatible
from agent_core.providers.demo import DemoProvider
from agent_core.providers.openai import openai
from agent_core.testing import FakeClock
from tests.cases import for_each

TOOLS = [ToolSpec(name=name, description=".", parameters={"type": "object"}) for name in ("look", "pick", "write")]
CLOSED = {"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False}
LOOSE = {"type": "object", "properties": {"a": {"type": "string", "minLength": 3}}}
SOME = ("look", "pick")
LOOK, PICK = ({"type": "function", "name": name} for name in SOME)
CHAT_LOOK, CHAT_PICK = ({"type": "function", "function": {"name": name}} for name in SOME)
CHOICE, OUTPUT = TypeAdapter(ToolChoiceParam), TypeAdapter(OutputConfigParam)
RESPONSES, CHAT = TypeAdapter(ResponseCreateParamsStreaming), TypeAdapter(CompletionCreateParamsStreaming)
OFFICIAL = "https://api.openai.com/v1"


def request(provider: Provider, model: str, **controls: Any) -> Request:
    snapshot = freeze(model=model, instructions="", tools=TOOLS)
    entry = WindowEntry(1, Message("user", (Text("Hi"),)), provider.encoder(model))
    return Request(model, snapshot, [entry], Controls(**controls), "s")


@for_each(
    "choice, sent",
    [
        ("auto", None),
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        (NamedTool("pick"), {"type": "tool", "name": "pick"}),
    ],
)
def test_anthropic_is_asked_for_a_choice(choice, sent):
    """Each choice is one of the API's own; a model that thinks by the token does not while a call is forced."""
    made = request(anthropic(api_key="k"), "claude-haiku-4-5", tool_choice=choice, effort="high")
    asked = json.loads(body_of(made, prefix_of(made.snapshot)))
    assert asked.get("tool_choice") == sent
    assert ("thinking" in asked) == (choice in ("auto", "none"))
    if sent:
        CHOICE.validate_python(asked["tool_choice"])


def test_anthropic_is_asked_for_a_form():
    """A schema stands beside the effort, in the API's output config."""
    made = request(anthropic(api_key="k"), "claude-opus-5", output_schema=CLOSED, effort="low")
    asked = json.loads(body_of(made, prefix_of(made.snapshot)))["output_config"]
    assert asked == {"effort": "low", "format": {"type": "json_schema", "schema": CLOSED}}
    OUTPUT.validate_python(asked)


@for_each(
    "controls, responses, chat",
    [
        ({}, "auto", None),
        ({"tool_choice": "none"}, "none", "none"),
        ({"tool_choice": "required"}, "required", "required"),
        ({"tool_choice": NamedTool("pick")}, PICK, CHAT_PICK),
        (
            {"active_tools": SOME},
            {"type": "allowed_tools", "mode": "auto", "tools": [LOOK, PICK]},
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [CHAT_LOOK, CHAT_PICK]}},
        ),
        (
            {"active_tools": SOME, "tool_choice": "required"},
            {"type": "allowed_tools", "mode": "required", "tools": [LOOK, PICK]},
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [CHAT_LOOK, CHAT_PICK]}},
        ),
    ],
)
def test_openai_is_asked_for_a_choice(controls, responses, chat):
    """Both of its wires have a form for every choice; the list of tools stays."""
    one, two = openai(api_key="k"), compatible(api_key="k", base_url=OFFICIAL)
    asked, chatted = (json.loads(each._body(request(each, "gpt-5.5", **controls))) for each in (one, two))
    assert (asked["tool_choice"], chatted.get("tool_choice")) == (responses, chat)
    assert len(asked["tools"]) == len(chatted["tools"]) == 3
    RESPONSES.validate_python(asked)
    CHAT.validate_python(chatted)


@for_each("schema, strict", [(CLOSED, True), (LOOSE, False)])
def test_openai_is_asked_for_a_form(schema, strict):
    """Both wires take a schema of an object, strictly where it is closed."""
    one, two = openai(api_key="k"), compatible(api_key="k", base_url=OFFICIAL)
    asked, chatted = (json.loads(each._body(request(each, "gpt-5.5", output_schema=schema))) for each in (one, two))
    form = {"name": "answer", "schema": schema, "strict": strict}
    assert asked["text"] == {"format": {"type": "json_schema", **form}}
    assert chatted["response_format"] == {"type": "json_schema", "json_schema": form}
    RESPONSES.validate_python(asked)
    CHAT.validate_python(chatted)


@for_each(
    "provider, model, able",
    [
        (
            anthropic(api_key="k"),
            "claude-sonnet-5-5",
            Abilities(withholds=False, narrows=False, forces=False, structured="closed", searches=True),
        ),
        (
            anthropic(api_key="k"),
            "claude-haiku-4-5",
            Abilities(withholds=False, narrows=False, forces=True, structured="closed", searches=True),
        ),
        (
            anthropic(api_key="k"),
            "claude-of-a-later-year",
            Abilities(withholds=False, narrows=False, structured="closed"),
        ),
        (openai(api_key="k"), "gpt-6.1-sol", Abilities(searches=True)),
        (openai(api_key="k"), "gpt-99", Abilities()),
        (openai(api_key="k", base_url="http://localhost:1/v1"), "gpt-6.1-sol", Abilities()),
        (compatible(api_key="k", base_url=OFFICIAL), "gpt-5.5", Abilities()),
        (
            compatible(api_key=None, base_url="http://localhost:1/v1"),
            "gpt-5.5",
            Abilities(narrows=False, structured="none"),
        ),
        (DemoProvider(FakeClock()), "", Abilities()),
    ],
)
def test_a_provider_knows_what_its_models_take(provider, model, able):
    """What costs the cache, is refused, or is not known of a server, is added by the core instead."""
    found = msgspec.structs.replace(provider.able(model), caching=None, listed_as="")
    assert found == able
