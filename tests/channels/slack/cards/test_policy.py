"""No sequence of clicks lets people execute a call that its policy does not let them allow."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agent_core.agents import Definition
from agent_core.core import Core
from agent_core.testing import FakeClock
from app.compose import CHANNELS
from channels.slack.cards import ALWAYS, APPROVE, DENY, EDIT
from channels.slack.testing import Team
from channels.slack.testing.team import NotPossible
from tests.agent_core.test_approval_policy import is_taken
from tests.channels.slack.cards.desk import Desk, asking
from tests.conftest import Fresh
from tests.polling import PATIENCE

pytestmark = [pytest.mark.sqlite, pytest.mark.whole]  # what a policy says does not depend on the database

HERE, THERE = "T0001", "T0002"
PEOPLE = ("UANN", "UBEN", "UCLEO", "UGUEST")
ROLES: dict[str, Callable[[str], bool]] = {
    "asker": lambda user: user == "UANN",
    "operators": lambda user: False,
    "anyone": lambda user: True,
    "slack:UBEN": lambda user: user == "UBEN",
    "slack:SDATA": lambda user: user in ("UBEN", "UCLEO"),
    "actor:slack:T0001:UCLEO": lambda user: user == "UCLEO",
}
Click = tuple[str, str, str]
BUTTONS = (APPROVE, ALWAYS, EDIT, DENY)
clicks = st.lists(
    st.tuples(st.sampled_from((HERE, HERE, HERE, THERE)), st.sampled_from(PEOPLE), st.sampled_from(BUTTONS)),
    min_size=1,
    max_size=6,
)
roles = st.lists(st.sampled_from(sorted(ROLES)), min_size=1, max_size=2, unique=True)
policies = st.tuples(roles, st.booleans(), st.sampled_from((1, 1, 2)))


def may(responders: Sequence[str], team: str, user: str) -> bool:
    """Return who may decide, by the words of the documentation."""
    if team != HERE or user == "UGUEST" or ("not_asker" in responders and user == "UANN"):
        return False
    return any(ROLES[each](user) for each in responders if each != "not_asker")


async def click(desk: Desk, team: Team, ts: str, user: str, action: str) -> bool:
    """Press a button, and submit the form that it opens; return whether that was a yes."""
    try:
        await team.presses(user, "CGENERAL", ts, action)
    except NotPossible:  # the card was updated
        return False
    if action in (APPROVE, ALWAYS):
        return True
    for view in [each for each in team.workspace.views.values() if each.user == user and "submit" in each.view]:
        await team.submits(user, view.id, {"arg_1": "7"} if action == EDIT else {})
        return action == EDIT
    return False


async def played(desk: Desk, responders: Sequence[str], quorum: int, steps: Sequence[Click]) -> None:
    await desk.ask()
    (card,) = desk.cards()
    # Copies, so that clicks go on when the card has lost its buttons; the one elsewhere is a card of nothing.
    copies = {team: await desk.post(card, desk.rig.stand_in.team(team)) for team in (HERE, THERE)}
    asked = await desk.open()
    allowed: set[str] = set()
    for team, user, action in steps:
        if await click(desk, desk.rig.stand_in.team(team), copies[team], user, action) and may(responders, team, user):
            allowed.add(user)
    found = await desk.rig.core.approvals.get(asked.id)
    if found.status == "open":
        assert desk.till.paid == []
        return
    assert (await desk.rig.core.settled(asked.run, timeout=PATIENCE)).status == "completed"
    assert len(desk.till.paid) == (found.status == "approved")
    if found.status == "approved":
        assert len(allowed) >= quorum
        assert {vote.actor.id.split(":")[-1] for vote in found.votes} <= allowed
    assert found.decided_by is not None
    home, user = found.decided_by.id.split(":")[1:]
    assert may(responders, home, user)


@settings(max_examples=8, deadline=None)
@given(policy=policies, steps=clicks)
def test_only_responders_can_decide(fresh: Fresh, policy: Any, steps: Sequence[Click]):
    """For any clicks by any people in any order, a call runs at most once, after enough yeses of the right people."""
    named, others, quorum = policy
    responders = [*named, "not_asker"] if others else named
    assume(is_taken(responders, 1))
    quorum = quorum if is_taken(responders, quorum) else 1

    async def play() -> None:
        with fresh() as open_database:
            cores: list[Core] = []

            async def make(model: Any, *, clock: FakeClock, definition: dict[str, Any], tools: Any) -> Core:
                core = Core(
                    open_database(),
                    providers={model.name: model},
                    tools={tool.spec.name: tool for tool in tools},
                    default_model=model.name,
                    clock=clock,
                    channels=CHANNELS,
                )
                cores.append(core)
                await core.start()
                core._segments.pressure.stop()  # that the machine is busy with tests is no subject of theirs
                names = tuple(tool.spec.name for tool in tools)
                await core.agents.create(Definition(name="assistant", instructions="", tools=names, **definition))
                return core

            try:
                async with asking(make, responders=responders, quorum=quorum, edit=quorum == 1, remember=True) as desk:
                    await played(desk, responders, quorum, steps)
            finally:
                await cores[0].stop()

    asyncio.run(play())
