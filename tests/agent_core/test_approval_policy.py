"""Who may decide: the words of a policy, alone, together, and against every sequence of clicks."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from agent_core import (
    Actor,
    AlreadyDecided,
    ApprovalConfig,
    Decider,
    Decision,
    InvalidInput,
    NotAnApprover,
    may_respond,
)
from agent_core.hooks.approval import check_approval
from agent_core.testing import ScriptedProvider, by_step, call, say
from tests.agent_core.asking import BOB, EVE, OPERATOR, Till, asks, open_approvals
from tests.agent_core.beginning import begin
from tests.agent_core.stage import ANN, Stage
from tests.conftest import Fresh

ASKER = Decider(actor=ANN, is_present=True)
NEIGHBOUR = Decider(actor=BOB, is_present=True)
OUTSIDER = Decider(actor=EVE)
MEMBER = Decider(actor=Actor("slack:T1:U7", "user"), is_present=True, also=("slack:U7", "slack:S9"))
IMPOSTOR = Decider(actor=Actor("ann", "visitor"), is_present=False)
EVERYBODY = (ASKER, NEIGHBOUR, OUTSIDER, MEMBER, IMPOSTOR, OPERATOR)


@pytest.mark.parametrize(
    ("responders", "may"),
    [
        (("asker",), {ASKER}),
        (("operators",), {OPERATOR}),
        (("asker", "operators"), {ASKER, OPERATOR}),
        (("anyone",), {ASKER, NEIGHBOUR, MEMBER, OPERATOR}),
        (("not_asker",), {NEIGHBOUR, MEMBER, OPERATOR}),
        (("asker", "not_asker"), set()),
        (("anyone", "not_asker"), {NEIGHBOUR, MEMBER, OPERATOR}),
        (("actor:bob",), {NEIGHBOUR}),
        (("actor:bob", "not_asker"), {NEIGHBOUR}),
        (("slack:U7",), {MEMBER}),
        (("slack:S9", "operators"), {MEMBER, OPERATOR}),
        (("slack:S8",), set()),
    ],
)
def test_each_word_lets_in_whom_it_says(responders: tuple[str, ...], may: set[Decider]) -> None:
    """A policy lets in those it names, and nobody else."""
    assert {each for each in EVERYBODY if may_respond(responders, ANN, each)} == may


def test_without_an_asker_nobody_is_known_to_be_another() -> None:
    """A run that nobody asked for has no asker to approve it, and nobody who is not the asker."""
    assert not any(may_respond(("asker",), None, each) for each in EVERYBODY)
    assert not any(may_respond(("not_asker",), None, each) for each in EVERYBODY)


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({"responders": ()}, "responders"),
        ({"responders": ("boss",)}, "responders"),
        ({"responders": ("actor:",)}, "responders"),
        ({"quorum": 0}, "quorum"),
        ({"quorum": 2, "responders": ("asker",)}, "quorum"),
        ({"quorum": 2, "responders": ("asker", "actor:bob", "not_asker")}, "quorum"),
        ({"quorum": 3, "responders": ("actor:bob", "actor:eve", "actor:bob")}, "quorum"),
        ({"quorum": 3, "responders": ("asker", "slack:U7")}, "quorum"),
        ({"responders": ("asker", "not_asker")}, "responders"),
        ({"quorum": 2, "responders": ("anyone",), "edit": True}, "edit"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": 1e9}, "timeout_s"),
        ({"responders": ("actor:a",) * 101}, "responders"),
        ({"responders": ("actor:" + "a" * 200,)}, "responders"),
        ({"deliver_to": ("somewhere",)}, "deliver_to"),
        ({"deliver_to": ("slack:C1",) * 21}, "deliver_to"),
        ({"deliver_to": ("slack:" + "C" * 200,)}, "deliver_to"),
        ({"title": ""}, "title"),
        ({"detail": "x" * 5_000}, "detail"),
    ],
)
def test_a_policy_that_nobody_could_follow_is_refused(config: dict[str, Any], path: str) -> None:
    """A policy without anybody, or beyond its bounds, is refused at the door with its path."""
    with pytest.raises(InvalidInput, match=f"config.{path}"):
        check_approval("hooks[0].config", ApprovalConfig(**config))


def is_taken(responders: Sequence[str], quorum: int) -> bool:
    """Tell whether an agent may have such a policy."""
    try:
        check_approval("config", ApprovalConfig(responders=tuple(responders), quorum=quorum))
    except InvalidInput:
        return False
    return True


@pytest.mark.parametrize(
    "responders",
    [("actor:bob", "actor:eve"), ("asker", "slack:U7"), ("slack:S9",), ("actor:bob", "operators"), ("not_asker",)],
)
def test_a_quorum_that_can_be_reached_is_taken(responders: tuple[str, ...]) -> None:
    """Two people who are named can be two; of a group, operators or anybody there may be as many."""
    assert is_taken(responders, 2)


CLICKS = st.lists(
    st.tuples(
        st.sampled_from(EVERYBODY),
        st.booleans(),
        st.sampled_from(["none", "edit", "remember", "both"]),
        st.sampled_from(["slack", "web", "api", "terminal"]),
    ),
    max_size=12,
)
POLICIES = st.lists(
    st.sampled_from(["asker", "operators", "anyone", "not_asker", "actor:bob", "slack:S9"]), min_size=1, max_size=3
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(clicks=CLICKS, responders=POLICIES, quorum=st.integers(1, 3))
async def test_no_clicks_of_outsiders_cause_an_execution(
    fresh: Fresh, clicks: list[tuple[Decider, bool, str, str]], responders: list[str], quorum: int
) -> None:
    """However people click, a call runs only after yeses of enough different people whom the policy names."""
    assume(is_taken(responders, 1))
    quorum = quorum if is_taken(responders, quorum) else 1
    till = Till()
    hook = asks(responders=responders, quorum=quorum, edit=quorum == 1, remember=True)
    with fresh() as open_database:
        async with begin(open_database(), ScriptedProvider(PAYS), till.tools(), (hook,)) as stage:
            run = await stage.play()
            allowed: dict[tuple[str, str], dict[str, Any]] = {}
            for by, approved, how, surface in clicks:
                await _click(stage, by, approved=approved, how=how, surface=surface)
                if approved and may_respond(responders, ANN, by):
                    allowed[by.actor.id, by.actor.kind] = {}
            if (await open_approvals(stage)) == []:
                await stage.done(run.id)
            assert len(till.paid) <= 1
            if till.paid:
                assert len(allowed) >= quorum, "it ran without enough people who may say yes"


async def _click(stage: Stage, by: Decider, *, approved: bool, how: str, surface: str) -> None:
    for asked in await open_approvals(stage):
        edits = {"amount": 7} if how in ("edit", "both") and approved and asked.edit else None
        vote = Decision(
            approval=asked.id,
            by=by,
            approved=approved,
            surface=surface,
            arguments=edits,
            remember=approved and how in ("remember", "both"),
        )
        with suppress(AlreadyDecided, NotAnApprover):
            await stage.core.approvals.decide(vote)


PAYS = by_step((call("pay", amount=5),), (say("Done."),))
