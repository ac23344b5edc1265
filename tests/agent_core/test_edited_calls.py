"""Edited calls: the model learns what ran in place of what it asked for, and who changed it."""

import pytest

from agent_core.agent.window import Edit, edited
from agent_core.events import ApprovalDecided, HookRuled
from agent_core.messages import Actor, Text
from agent_core.objects import Decider
from agent_core.testing import call, say
from tests.agent_core.asking import OPERATOR, Till, asks, open_approvals, yes
from tests.agent_core.stage import ANN, Stage, results, set_stage
from tests.agent_core.test_corrections import checked
from tests.conftest import MakeCore

DECIDED = ApprovalDecided(
    approval="apr_1", call="call_1", tool="pay", arguments={"to": "a [note] b"}, status="approved", by=ANN, edited=True
)
RULED = HookRuled(
    hook="h", event="PreToolUse", ruling="modify", reason=None, call="call_1", arguments={"key": "s3cret"}
)


async def paid(make_core: MakeCore, by: Actor | Decider, **changes) -> tuple[Stage, list[str]]:
    """Return the texts of the result of a call that *by* allowed, with *changes*."""
    till = Till()
    stage = await set_stage(
        make_core, [(call("pay", amount=5),), (say("Paid."),)], tools=till.tools(), hooks=[asks(edit=True)]
    )
    run = await stage.play("one")
    (asked,) = await open_approvals(stage)
    await stage.core.approvals.decide(yes(asked.id, by, **changes))
    await stage.done(run.id)
    await checked(stage)
    (result,) = results(stage.provider.requests[1])
    return stage, [part.text for part in result.parts if isinstance(part, Text)]


async def test_the_model_reads_what_ran_and_who_changed_it(make_core: MakeCore):
    """Before the result of a corrected call stands, in the core's frame, what ran and the person's name."""
    stage, texts = await paid(make_core, Actor("ann", "user", "Ann"), arguments={"amount": 3})
    marker = (await stage.core._cache.get(stage.session)).window.frames.marker
    note = 'ran with arguments {"amount":3}, changed by Ann'
    assert texts == [f"[note {marker}] {note} [/note {marker}]", "Paid 3 as call_"]


async def test_an_operators_key_has_no_name_for_the_model(make_core: MakeCore):
    """A change by an operator is an operator's: the name of the key is not the model's to repeat."""
    _, texts = await paid(make_core, OPERATOR, arguments={"amount": 3})
    assert "changed by an operator [" in texts[0]


@pytest.mark.parametrize("changes", [{}, {"arguments": {"amount": 5}}], ids=("plain", "same"))
async def test_a_call_that_ran_as_asked_has_no_note(make_core: MakeCore, changes: dict):
    """A yes alone, or with the same arguments, adds nothing to the result."""
    _, texts = await paid(make_core, ANN, **changes)
    assert texts == ["Paid 5 as call_"]


def test_what_a_rule_put_in_is_not_repeated():
    """Once a rule has changed the arguments they are not shown: it may have put a secret into them."""
    for bodies in ((RULED, DECIDED), (DECIDED, RULED)):
        edit = Edit()
        for body in bodies:
            edit = edited(edit, body)
        assert edit.note("done") == "ran with other arguments, changed by a person and by a rule"
    assert edited(Edit(), RULED).note("done") is None


def test_a_change_of_the_result_is_not_one_of_the_arguments():
    """A hook that replaced what a call returned has not changed what it ran with: that is still shown."""
    result = HookRuled(hook="mask", event="PostToolUse", ruling="modify", reason=None, call="call_1")
    shown = 'ran with arguments {"to":"a [note] b"}, changed by a person'
    assert edited(edited(Edit(), DECIDED), result).note("done") == shown
    assert edited(edited(edited(Edit(), RULED), DECIDED), result).by_rule


def test_a_call_that_did_not_run_has_no_note():
    """A corrected call that was denied or stopped after all ran with nothing; a failed one did run."""
    edit = edited(Edit(), DECIDED)
    assert [edit.note(outcome) for outcome in ("denied", "cancelled")] == [None, None]
    assert edit.note("failed") == 'ran with arguments {"to":"a [note] b"}, changed by a person'
    long = edited(Edit(), ApprovalDecided(**{**_fields(DECIDED), "arguments": {"to": "x" * 50_000}}))
    assert len(long.note("done") or "") < 11_000


def _fields(body: ApprovalDecided) -> dict:
    return {name: getattr(body, name) for name in body.__struct_fields__}
