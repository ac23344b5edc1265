"""Forms: a tool asks the person who asked, waits without a process, and goes on with the answer."""

from typing import Any

import pytest

from agent_core.agents import ToolSpec
from agent_core.errors import InvalidInput
from agent_core.events import ApprovalRequested, Fact, ToolCompleted, ToolStarted
from agent_core.hooks import chain
from agent_core.hooks.chain import MAX_FORMS
from agent_core.messages import Text, text_of
from agent_core.testing import by_step, call, say
from agent_core.tools.base import CallContext, Done, Elicitation, Outcome
from agent_core.tools.functions import tool
from tests.agent_core.asking import asks, no, open_approvals, yes
from tests.agent_core.stage import Stage, restart, results, set_stage
from tests.conftest import MakeCore

TABLE = {
    "type": "object",
    "properties": {
        "guests": {"type": "integer", "minimum": 1},
        "where": {"type": "string", "enum": ["inside", "outside"]},
        "note": {"type": "string"},
    },
    "required": ["guests", "where"],
}
BOOKS = by_step((say("Booking."), call("book", day="Monday")), (say("Done."),))


class Booking:
    """A tool that asks for what it needs: *schema*; *answers* are those it got, with the state of its question."""

    def __init__(self, schema: dict[str, Any] = TABLE, *, forever: bool = False) -> None:
        self.schema, self.forever, self.answers = schema, forever, list[Any]()

    @property
    def spec(self) -> ToolSpec:
        fields = {"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]}
        return ToolSpec(name="book", description="Book a table.", parameters=fields, effect="write")

    async def call(self, arguments: dict[str, Any], context: CallContext) -> Outcome:
        if context.answer is None or self.forever:
            return Elicitation(
                "Which table\u202e?", self.schema, "It is for one evening.", state=f"for {arguments['day']}"
            )
        self.answers.append(context.answer)
        return Done((Text(f"booked: {context.answer.accepted}"),))


async def _asked(make_core: MakeCore, booking: Booking, **options: Any) -> Stage:
    stage = await set_stage(make_core, BOOKS, tools=[booking], **options)
    run = await stage.play("Book")
    assert run.status == "waiting"
    return stage


async def _result(stage: Stage) -> str:
    (result,) = results(stage.provider.requests[-1])
    return f"{result.outcome}: {text_of(result.parts)}"


async def test_a_tool_asks_and_another_process_goes_on(make_core: MakeCore):
    """The question waits in the log; a later process makes the call again with the answer and the tool's own state."""
    stage = await _asked(make_core, Booking())
    (asked,) = await open_approvals(stage)
    assert (asked.title, asked.detail) == ("Which table?", "It is for one evening.")
    assert (asked.arguments, asked.form, asked.edit) == ({}, TABLE, True)
    later = Booking()
    stage = await restart(make_core, stage, BOOKS, tools=(later,))
    await stage.core.approvals.decide(yes(asked.id, arguments={"guests": 4, "where": "outside"}))
    assert (await stage.done(asked.run)).status == "completed"
    (answer,) = later.answers
    assert (answer.accepted, answer.content) == (True, {"guests": 4, "where": "outside"})
    assert answer.state == "for Monday"
    assert await _result(stage) == "done: booked: True"
    assert len(await stage.said(ToolStarted)) == 2
    assert "changed by" not in str(stage.provider.requests[-1].messages[-1].message)


async def test_a_no_reaches_the_tool(make_core: MakeCore):
    """Who declines denies no call: the tool learns it, and what it returns is the result."""
    booking = Booking()
    stage = await _asked(make_core, booking)
    (asked,) = await open_approvals(stage)
    await stage.core.approvals.decide(no(asked.id, reason="Not now."))
    await stage.done(asked.run)
    assert [(each.accepted, each.content) for each in booking.answers] == [(False, {})]
    assert await _result(stage) == "done: booked: False"


async def test_what_does_not_fit_the_form_is_refused(make_core: MakeCore):
    """An answer that does not fit names the field and leaves the question open; so does a yes that fills nothing in."""
    stage = await _asked(make_core, Booking())
    (asked,) = await open_approvals(stage)
    for vote in (yes(asked.id, arguments={"guests": 4}), yes(asked.id)):
        with pytest.raises(InvalidInput, match="does not fit the form of `book`"):
            await stage.core.approvals.decide(vote)
    assert [each.id for each in await open_approvals(stage)] == [asked.id]
    spec = await stage.core.approvals.tool(asked.id)
    assert spec is not None
    assert spec.parameters == TABLE


@pytest.mark.parametrize("before", [{}, {"guests": 1, "where": "inside"}], ids=["now", "an old log"])
async def test_no_value_is_invented(make_core: MakeCore, monkeypatch: pytest.MonkeyPatch, before: dict[str, Any]):
    """A yes without values is refused by the fields that miss one, though an old log has values that nobody gave."""
    monkeypatch.setattr(chain, "defaults", lambda _: before)
    stage = await _asked(make_core, Booking())
    (asked,) = await open_approvals(stage)
    assert (asked.arguments, asked.asked) == ({}, {})
    with pytest.raises(InvalidInput, match="Answer it with `arguments`") as refused:
        await stage.core.approvals.decide(yes(asked.id))
    assert [each.path for each in refused.value.faults] == ["arguments.guests", "arguments.where"]
    assert await open_approvals(stage) == [asked]


async def test_defaults_are_accepted_as_they_stand(make_core: MakeCore):
    """A form that requires nothing without a default is answered by a yes; what has no default is left out."""
    fields = {"guests": {"type": "integer", "default": 2}, "note": {"type": "string"}}
    booking = Booking({"type": "object", "properties": fields, "required": ["guests"]})
    stage = await _asked(make_core, booking)
    (asked,) = await open_approvals(stage)
    await stage.core.approvals.decide(yes(asked.id))
    await stage.done(asked.run)
    assert [each.content for each in booking.answers] == [{"guests": 2}]


async def test_several_choices_are_checked(make_core: MakeCore):
    """Of a list of choices none is chosen at first; too few, too many or another text is refused with the field."""
    items = {"anyOf": [{"const": each, "title": each.title()} for each in ("ham", "egg", "tea")]}
    food = {"type": "array", "items": items, "minItems": 1, "maxItems": 2}
    booking = Booking({"type": "object", "properties": {"food": food}, "required": ["food"]})
    stage = await _asked(make_core, booking)
    (asked,) = await open_approvals(stage)
    assert asked.arguments == {}
    for wrong in ([], ["ham", "egg", "tea"], ["jam"], "ham"):
        with pytest.raises(InvalidInput, match="food"):
            await stage.core.approvals.decide(yes(asked.id, arguments={"food": wrong}))
    await stage.core.approvals.decide(yes(asked.id, arguments={"food": ["tea", "ham"]}))
    await stage.done(asked.run)
    assert booking.answers[0].content == {"food": ["tea", "ham"]}


async def test_an_approval_and_a_form_of_one_call(make_core: MakeCore):
    """People approve the call first, then its tool asks; the approval is not asked for again."""
    booking = Booking()
    stage = await _asked(make_core, booking, hooks=(asks("book"),))
    (approval,) = await open_approvals(stage)
    await stage.core.approvals.decide(yes(approval.id))
    await stage.done(approval.run)
    (asked,) = await open_approvals(stage)
    assert asked.form == TABLE
    await stage.core.approvals.decide(yes(asked.id, arguments={"guests": 1, "where": "inside"}))
    assert (await stage.done(asked.run)).status == "completed"
    assert len(booking.answers) == 1


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"type": "object", "properties": {"all": {"type": "array"}}},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}},
        {"type": "object", "properties": {f"f{n}": {"type": "string"} for n in range(31)}},
    ],
    ids=["no object", "a list", "broken", "too many"],
)
async def test_a_form_that_cannot_be_shown_fails_the_call(make_core: MakeCore, schema: dict[str, Any]):
    """The model reads that the call failed, and no person is asked."""
    stage = await set_stage(make_core, BOOKS, tools=[Booking(schema)])
    assert (await stage.play("Book")).status == "completed"
    assert (await _result(stage)).startswith("failed: It asked for what cannot be asked of people")
    assert await stage.said(ApprovalRequested) == []


async def test_a_tool_that_asks_for_ever_is_ended(make_core: MakeCore):
    """After so many forms the call fails."""
    stage = await _asked(make_core, Booking(forever=True))
    for _ in range(MAX_FORMS):
        (asked,) = await open_approvals(stage)
        await stage.core.approvals.decide(yes(asked.id, arguments={"guests": 1, "where": "inside"}))
        await stage.done(asked.run)
    assert await _result(stage) == f"failed: It asked for more than {MAX_FORMS} answers."


async def test_a_stop_takes_the_question_back(make_core: MakeCore):
    """A run that is stopped closes its question and its call."""
    stage = await _asked(make_core, Booking())
    (asked,) = await open_approvals(stage)
    await stage.stop(asked.run)
    assert (await stage.core.approvals.get(asked.id)).status == "cancelled"
    (end,) = await stage.said(ToolCompleted)
    assert end.outcome == "cancelled"
    facts: list[Fact] = await stage.log()
    assert facts[-1].type == "run.cancelled"


async def test_a_function_tool_asks(make_core: MakeCore):
    """A function that returns the question gets the answer in its context."""

    @tool(effect="write")
    async def book(day: str, context: CallContext) -> Elicitation | str:
        """Book a table."""
        if context.answer is None:
            return Elicitation("Which table?", TABLE, state=day)
        return f"{context.answer.state}: {context.answer.content['guests']}"

    stage = await set_stage(make_core, BOOKS, tools=[book])
    await stage.play("Book")
    (asked,) = await open_approvals(stage)
    await stage.core.approvals.decide(yes(asked.id, arguments={"guests": 2, "where": "inside"}))
    await stage.done(asked.run)
    assert await _result(stage) == "done: Monday: 2"
