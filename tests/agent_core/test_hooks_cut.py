"""Answers that are cut, under rules: what no hook has seen whole is not put together."""

from typing import Any

import pytest

from agent_core.agents import Hook
from agent_core.events import HookRuled, MessageCompleted
from agent_core.messages import text_of
from agent_core.providers.base import FinishReason
from agent_core.testing import finish, say, think
from tests.agent_core.stage import set_stage
from tests.conftest import MakeCore


def bans(word: str, **config: Any) -> Hook:
    """Return a rule that lets no answer with *word* in it pass."""
    conditions = [{"field": "text", "operator": "CONTAINS", "value": word}]
    return Hook(event="PreResponse", type="rule", config={"conditions": conditions, **config})


@pytest.mark.parametrize("reason", ["length", "continue"])
async def test_no_cut_puts_a_banned_text_together(make_core: MakeCore, reason: FinishReason) -> None:
    """A word that is banned does not come out in two pieces: a cut answer is ruled as it is, and ends there."""
    script = [(say("The pass"), finish(reason)), (say("word is 1234."),)]
    stage = await set_stage(make_core, script, hooks=(bans("password"),))
    run = await stage.play()
    assert (run.status, run.text, len(stage.provider.requests)) == ("completed", "The pass", 1)
    assert run.stop_reason == "max_tokens"
    assert "word" not in str([fact.raw for fact in await stage.log()])


async def test_a_cut_answer_that_is_banned_has_no_rest(make_core: MakeCore) -> None:
    """After the text that replaces a blocked piece nothing of the answer follows."""
    script = [(say("The password"), finish("length")), (say(" is 1234."),)]
    stage = await set_stage(make_core, script, hooks=(bans("password", reason="Not in here."),))
    run = await stage.play()
    assert (run.stop_reason, run.text, len(stage.provider.requests)) == ("blocked", "Not in here.", 1)


@pytest.mark.parametrize(("answer", "ruling"), [("The password.", "deny"), ("All is well.", "allow")])
async def test_an_answer_whose_thinking_was_cut_is_ruled_whole(make_core: MakeCore, answer: str, ruling: str) -> None:
    """A piece without a word of the answer is gone on from: the hook sees all that people would."""
    script = [(think("Hm, let me see."), finish("length")), (say(answer),)]
    stage = await set_stage(make_core, script, hooks=(bans("password", reason="No."),))
    run = await stage.play()
    assert run.text == ("No." if ruling == "deny" else answer)
    assert [ruled.ruling for ruled in await stage.said(HookRuled)] == [ruling]


async def test_without_rules_a_cut_answer_continues(make_core: MakeCore) -> None:
    """An agent without a hook on answers has its truncated answers continued and joined."""
    script = [(say("The pass"), finish("length")), (say("word is 1234."),)]
    stage = await set_stage(make_core, script, hooks=())
    assert (await stage.play()).text == "The password is 1234."
    assert [text_of(said.parts) for said in await stage.said(MessageCompleted)] == ["The pass", "word is 1234."]
