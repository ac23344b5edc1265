"""Hooks in the loop: what an author's rules do to runs, calls, results and answers."""

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from agent_core.agents import Hook, HookEvent, NamedHook
from agent_core.events import (
    HookRuled,
    MessageCompleted,
    ReasoningDelta,
    RunCompleted,
    StepStarted,
    TextDelta,
    ToolCompleted,
    ToolStarted,
)
from agent_core.hooks.chain import Allow, Answer, Deny, Modify, Occasion
from agent_core.messages import Text, text_of
from agent_core.testing import by_step, call, pause, say, think
from tests.agent_core.asking import Till, asks, no, open_approvals, yes
from tests.agent_core.raising import RAISED
from tests.agent_core.stage import ANN, Stage, is_a, results, set_stage, texts
from tests.conftest import MakeCore
from tests.polling import PATIENCE

PAYS = by_step((say("Paying."), call("pay", amount=5)), (say("Done."),))


class Ruler:
    """Answers for every hook as a test says, and remembers what it was asked."""

    def __init__(self, answer: Callable[[Occasion], Answer | None] = lambda _: None) -> None:
        self.answer = answer
        self.asked: list[Occasion] = []
        self.called = asyncio.Event()

    async def ask(self, named: NamedHook, occasion: Occasion) -> Answer | None:
        self.asked.append(occasion)
        self.called.set()
        return self.answer(occasion)


def hook(event: HookEvent, **options: Any) -> Hook:
    """Return a webhook; what it says is the ruler's."""
    return Hook(event=event, type="http", config={"url": "https://rules.test/", "secret": "s" * 32}, **options)


async def _stage(
    make_core: MakeCore, ruler: Ruler, *hooks: Hook, script: Any = PAYS, till: Till | None = None
) -> Stage:
    return await set_stage(make_core, script, tools=(till or Till()).tools(), hooks=hooks, resolvers=ruler)


async def test_a_run_may_be_refused_before_a_model_sees_it(make_core: MakeCore) -> None:
    """A hook at the start of a run blocks it with words of its own; no model is asked, and the next run is."""
    ruler = Ruler(lambda occasion: Deny("Not in here.") if "Pay" in (occasion.text or "") else None)
    stage = await _stage(make_core, ruler, hook("OnRunStart"), script=[(say("Hello."),)])
    run = await stage.play("Pay me")
    assert (run.status, run.stop_reason, run.text) == ("completed", "blocked", "Not in here.")
    assert (stage.provider.requests, ruler.asked[0].actor, ruler.asked[0].channel) == ([], ANN, "api")
    assert (await stage.play("Hello")).text == "Hello."
    assert texts(stage.provider.requests[0]) == [("user", "Hello")], "what was refused is in no window"


async def test_a_denied_call_is_returned_to_the_model(make_core: MakeCore) -> None:
    """A denied call does not run; the model hears why and answers."""
    till = Till()
    stage = await _stage(make_core, Ruler(lambda _: Deny("Too much.")), hook("PreToolUse", matcher="p*"), till=till)
    assert (await stage.play()).text == "Done."
    (result,) = results(stage.provider.requests[1])
    assert (result.outcome, text_of(result.parts), till.paid) == ("denied", "Too much.", [])
    assert await stage.said(ToolStarted) == []


async def test_a_hook_may_change_the_arguments(make_core: MakeCore) -> None:
    """What runs is what the hook put in the place of the model's arguments, and the log has both."""
    till = Till()
    stage = await _stage(make_core, Ruler(lambda _: Modify(arguments={"amount": 1})), hook("PreToolUse"), till=till)
    await stage.play()
    assert till.paid == [1]
    (ruled,) = await stage.said(HookRuled)
    assert (ruled.ruling, ruled.arguments) == ("modify", {"amount": 1})


async def test_arguments_that_do_not_fit_are_no_answer_of_a_hook(make_core: MakeCore) -> None:
    """A hook that changes the arguments into what the tool does not take counts as one that failed."""
    till = Till()
    open_one, closed_one = hook("PreToolUse"), hook("PreToolUse", name="closed")
    closed_one.config["on_error"] = "deny"
    stage = await _stage(make_core, Ruler(lambda _: Modify(arguments={"amount": "x"})), open_one, closed_one, till=till)
    await stage.play()
    allowed, denied = await stage.said(HookRuled)
    assert (allowed.ruling, denied.ruling, till.paid) == ("allow", "deny", [])
    assert allowed.error == denied.error
    assert "amount" in (denied.error or "")


async def test_a_result_may_be_changed_before_anybody_sees_it(make_core: MakeCore) -> None:
    """What a hook puts in the place of a result is all that log and model have of it."""
    stage = await _stage(make_core, Ruler(lambda _: Modify(result="Paid a lot")), hook("PostToolUse"))
    await stage.play()
    (result,) = results(stage.provider.requests[1])
    assert text_of(result.parts) == "Paid a lot"
    assert "Paid 5" not in str([fact.raw for fact in await stage.log()])


async def test_a_long_result_that_was_changed_is_kept_nowhere(make_core: MakeCore) -> None:
    """Of a result past its limit that a hook withheld there is no whole either."""
    script = by_step((call("look", what="x" * 60_000),), (say("Done."),))
    stage = await _stage(make_core, Ruler(lambda _: Deny()), hook("PostToolUse"), script=script)
    await stage.play()
    (end,) = await stage.said(ToolCompleted)
    assert (end.ref, end.truncated) == (None, False)
    assert "withheld" in text_of(end.parts)


async def test_an_answer_is_ruled_before_anybody_sees_a_word(make_core: MakeCore) -> None:
    """With a hook on answers no step shows text as it comes, and log, window and readers have the ruled text only."""
    ruler = Ruler(lambda occasion: Modify(text=(occasion.text or "").replace("secret", "[…]")))
    script = by_step((think("The secret."), say("My secret: ", "paying."), call("pay", amount=5)), (say("No secret."),))
    stage = await _stage(make_core, ruler, hook("PreResponse"), script=script)
    async with stage.reader() as reader:
        await stage.play()
        await reader.until(is_a(RunCompleted))
        assert not [event for event in reader.events if isinstance(event.body, TextDelta | ReasoningDelta)]
    assert [text_of(said.parts) for said in await stage.said(MessageCompleted)] == ["My […]: paying.", "No […]."]
    assert "secret" not in str([fact.raw for fact in await stage.log()])
    assert ("assistant", "My […]: paying.") in texts(stage.provider.requests[1])


async def test_an_answer_may_be_blocked_with_a_message(make_core: MakeCore) -> None:
    """A blocked answer is replaced by the hook's message and ends the run; calls of that step do not run."""
    till = Till()
    stage = await _stage(
        make_core, Ruler(lambda _: Deny("Let us talk of something else.")), hook("PreResponse"), till=till
    )
    run = await stage.play()
    assert (run.stop_reason, run.text, till.paid) == ("blocked", "Let us talk of something else.", [])
    assert [end.outcome for end in await stage.said(ToolCompleted)] == ["cancelled"]


async def test_what_a_stop_cuts_of_an_answer_under_rules_is_not_kept(make_core: MakeCore) -> None:
    """A cancel in the middle of an answer that no hook has seen keeps none of its words."""
    gate = asyncio.Event()
    stage = await _stage(make_core, Ruler(), hook("PreResponse"), script=[(say("My secret"), pause(gate))])
    run = await stage.send()
    await stage.until(is_a(StepStarted))
    await stage.asked(1)
    await stage.stop(run)
    assert "secret" not in str([fact.raw for fact in await stage.log()])


async def test_end_hooks_are_notified_after_the_commit(make_core: MakeCore) -> None:
    """Hooks on the end of runs are notified of it, with how it ended, and change nothing."""
    ruler = Ruler(lambda _: Deny("Too late."))
    stage = await _stage(make_core, ruler, hook("OnRunComplete"), script=[(say("Hello."),)])
    run = await stage.play()
    await asyncio.wait_for(ruler.called.wait(), PATIENCE)
    (occasion,) = ruler.asked
    assert (occasion.event, occasion.status, occasion.text, occasion.run) == (
        "OnRunComplete", "completed", "Hello.", run.id,
    )  # fmt: skip
    assert (await stage.types(run.id))[-1] == "run.completed"


async def test_the_first_no_ends_the_chain(make_core: MakeCore) -> None:
    """Hooks are asked in their order, rules before people, up to the first no."""
    ruler = Ruler(lambda occasion: Deny() if occasion.hook == "second" else Allow())
    hooks = (asks(), hook("PreToolUse", name="third", order=1), hook("PreToolUse", name="first"))
    stage = await _stage(make_core, ruler, *hooks, hook("PreToolUse", name="second"))
    await stage.play()
    assert [ruled.hook for ruled in await stage.said(HookRuled)] == ["first", "second"]


async def test_people_are_asked_about_what_a_hook_made_of_the_call(make_core: MakeCore) -> None:
    """A change of the arguments after people said yes has them asked again: what runs is what they saw."""
    till = Till()
    hooks = (asks(), hook("PreToolUse", name="late", order=1))
    stage = await _stage(make_core, Ruler(lambda _: Modify(arguments={"amount": 9})), *hooks, till=till)
    run = await stage.play()
    (first,) = await open_approvals(stage)
    await stage.core.approvals.decide(yes(first.id))
    assert (await stage.done(run.id)).status == "waiting"
    (second,) = await open_approvals(stage)
    assert (first.arguments, second.arguments, till.paid) == ({"amount": 5}, {"amount": 9}, [])
    await stage.core.approvals.decide(no(second.id))
    assert (await stage.done(run.id)).status == "completed"
    assert till.paid == []


async def test_the_rules_see_what_people_corrected(make_core: MakeCore) -> None:
    """Corrected arguments pass the same rules as the model's own."""
    till = Till()
    ruler = Ruler(lambda occasion: Deny("Too much.") if (occasion.arguments or {})["amount"] > 5 else None)
    stage = await _stage(make_core, ruler, hook("PreToolUse"), asks(edit=True), till=till)
    run = await stage.play()
    (asked,) = await open_approvals(stage)
    await stage.core.approvals.decide(yes(asked.id, arguments={"amount": 500}))
    assert (await stage.done(run.id)).status == "completed"
    assert (till.paid, results(stage.provider.requests[1])[0].outcome) == ([], "denied")


async def test_rules_see_what_a_hook_made_of_the_call(make_core: MakeCore) -> None:
    """What a hook changes passes the same rules as the model's own arguments, those that had let it pass too."""
    till = Till()

    def answer(occasion: Occasion) -> Answer | None:
        if occasion.hook == "changes":
            return Modify(arguments={"amount": 9000})
        return Deny("Too much.") if (occasion.arguments or {})["amount"] > 100 else None

    hooks = (hook("PreToolUse", name="bounds"), hook("PreToolUse", name="changes", order=1))
    stage = await _stage(make_core, Ruler(answer), *hooks, till=till)
    await stage.play()
    assert (till.paid, results(stage.provider.requests[1])[0].outcome) == ([], "denied")
    assert [(ruled.hook, ruled.ruling) for ruled in await stage.said(HookRuled)] == [
        ("bounds", "allow"), ("changes", "modify"), ("bounds", "deny"),
    ]  # fmt: skip


async def test_a_call_that_cannot_run_is_nobodys_question(make_core: MakeCore) -> None:
    """No hook is asked about invalid arguments or unknown tools."""
    script = by_step((call("pay", amount="much"), call("nothing")), (say("Done."),))
    ruler = Ruler()
    stage = await _stage(make_core, ruler, hook("PreToolUse"), asks("*"), script=script)
    assert (await stage.play()).status == "completed"
    assert ruler.asked == []
    assert [end.outcome for end in await stage.said(ToolCompleted)] == ["failed", "failed"]


async def test_text_parts_join_for_the_hook(make_core: MakeCore) -> None:
    """A hook that says nothing changes nothing: the message stays as the model wrote it."""
    stage = await _stage(make_core, Ruler(), hook("PreResponse"), script=[(think("Hm."), say("Hello."))])
    await stage.play()
    (said,) = await stage.said(MessageCompleted)
    assert Text("Hello.") in said.parts


async def test_whatever_a_hook_raises_is_its_failure(make_core: MakeCore) -> None:
    """A hook that raises gave no answer: the call does not run, and the ruling says why."""

    def broken(occasion: Occasion) -> Answer | None:
        raise RAISED[(occasion.arguments or {})["amount"]][0]

    till = Till()
    calls = tuple(call("pay", amount=n) for n in range(len(RAISED)))
    strict = replace(hook("PreToolUse"), config={**hook("PreToolUse").config, "on_error": "deny"})
    stage = await _stage(make_core, Ruler(broken), strict, till=till, script=[calls, (say("Done."),)])
    async with asyncio.timeout(PATIENCE):
        assert (await stage.play()).text == "Done."
    rulings = [(ruled.ruling, ruled.error) for ruled in await stage.said(HookRuled)]
    assert (rulings, till.paid) == ([("deny", f"it raised {said}") for _, said in RAISED], [])
