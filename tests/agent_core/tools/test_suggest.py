"""Suggestions below an answer: what people see of them, what is refused, and that an agent has to list the tool."""

from typing import Any

from agent_core.events import RenderShown, ToolCompleted
from agent_core.messages import Text
from agent_core.testing import FakeClock, ScriptedProvider, by_step, call, say
from agent_core.tools.base import CallContext, Done, Outcome, ToolError
from agent_core.tools.builtin import suggest
from tests.agent_core.scenes import log_of, only, open_session, say_and_wait
from tests.agent_core.stage import ANN
from tests.cases import for_each
from tests.conftest import MakeCore

TRACK = {"label": "Where is it?", "prompt": "Where is order A-1001?"}


async def use(*items: dict[str, str]) -> Outcome:
    context = CallContext("c", "s", "r", actor=ANN, channel="web", clock=FakeClock(), progress=print)
    return await suggest.call({"items": list(items)}, context)


async def items_of(*items: dict[str, str]) -> Any:
    outcome = await use(*items)
    assert isinstance(outcome, Done)
    return outcome.renders[0].payload["items"]


async def test_suggestions_are_a_render_with_its_text():
    """Surfaces with buttons have items, all others what a person could write; the model reads that they are shown."""
    outcome = await use(TRACK, {"label": "Thanks"})
    assert isinstance(outcome, Done)
    (render,) = outcome.renders
    assert (render.kind, render.title) == ("suggestions", None)
    assert render.payload == {"items": [TRACK, {"label": "Thanks", "prompt": "Thanks"}]}
    assert render.text == "- Where is order A-1001?\n- Thanks"
    assert isinstance(outcome.parts[0], Text)
    assert "Do not repeat" in outcome.parts[0].text


@for_each(
    "given, shown",
    [
        ("two\nlines\t and   spaces", "two lines and spaces"),
        ("turned \u202eround", "turned round"),
        ("tag\U000e0041\u200bged", "tagged"),
        ("\x1b[31mred", "[31mred"),
        ("half \ud800", "half \ufffd"),
        ("par\u2028agraph", "par agraph"),
        ("\U0001f469\u200d\U0001f467 ok", "\U0001f469\u200d\U0001f467 ok"),
    ],
)
async def test_what_cannot_be_seen_is_taken_out(given: str, shown: str):
    """A label and what is sent are one line each, and hold nothing that a person does not see."""
    assert await items_of({"label": given, "prompt": given}) == [{"label": shown, "prompt": shown}]


@for_each("blank", [" ", "\u200b", "\u3164", "\n", "\u2800\u202e"])
async def test_a_button_without_words_is_refused(blank: str):
    """What looks empty is an error that the model reads."""
    assert isinstance(await use({"label": blank}), ToolError)
    assert isinstance(await use({"label": "ok", "prompt": blank}), ToolError)
    assert isinstance(await use(TRACK, TRACK), ToolError)


async def test_an_agent_that_lists_it_shows_suggestions(make_core: MakeCore):
    """They are in the log before the answer; what does not fit the schema is not shown, and its faults are named."""
    script = by_step(
        (
            call("suggest", items=[TRACK]),
            call("suggest", items=[{"label": "x" * 61}]),
            call("suggest", items=[TRACK] * 5),
            call("suggest", items=[{**TRACK, "href": "javascript:x"}]),
            call("suggest", items=[]),
        ),
        (say("It is on its way."),),
    )
    core = await make_core(ScriptedProvider(script), tools=(suggest,), definition={"tools": ("suggest",)})
    session = await open_session(core)
    await say_and_wait(core, session, "Where is my order?")
    facts = await log_of(core, session)
    (shown,) = only(facts, RenderShown)
    assert (shown.kind, shown.payload) == ("suggestions", {"items": [TRACK]})
    assert sorted(each.outcome for each in only(facts, ToolCompleted)) == ["done", *["failed"] * 4]


async def test_no_agent_has_it_by_default(make_core: MakeCore):
    """An agent without it in its tools does not offer it to the model."""
    provider = ScriptedProvider(by_step((say("Hello."),)))
    core = await make_core(provider, tools=(suggest,), definition={"tools": ()})
    session = await open_session(core)
    await say_and_wait(core, session, "Hi")
    assert "suggest" not in {spec.name for spec in provider.requests[0].snapshot.frozen}
