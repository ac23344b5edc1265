"""What is known of people in Slack, and how often Slack is asked."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from channels.slack.api import Identity, TargetMissing
from channels.slack.pace import Installation
from channels.slack.people import AGE, People, person_of
from channels.slack.testing import InjectedFault
from tests.cases import for_each
from tests.channels.slack.rig import Rig, rigged

ME = Identity("T0001", "UPARLEY", "BPARLEY", None)


@pytest.fixture
async def rig(make_core) -> AsyncIterator[Rig]:
    async with rigged(make_core) as made:
        yield made


@pytest.fixture
async def home(rig: Rig) -> Installation:
    return await rig.workspaces.find("T0001")


@for_each(
    "about, me, kind",
    [
        ({}, ME, "member"),
        ({"is_restricted": True}, ME, "guest"),
        ({"is_ultra_restricted": True}, ME, "guest"),
        ({"is_bot": True}, ME, "bot"),
        ({"is_stranger": True}, ME, "stranger"),
        ({"team_id": "T9"}, ME, "stranger"),
        ({"team_id": "T9", "enterprise_user": {"enterprise_id": "E1"}}, ME, "stranger"),
        ({"team_id": "T9", "enterprise_user": {"enterprise_id": "E1"}}, Identity("T0001", "U", "B", "E1"), "member"),
    ],
)
def test_members_guests_and_outsiders(about, me, kind):
    """Members are of the workspace or of its organisation; guests, strangers and bots are not."""
    person = person_of({"id": "UANN", "team_id": "T0001", "name": "ann", **about}, me)
    assert (person.name, person.kind) == ("ann", kind)


async def test_requests_for_the_same_person_share_one_call(rig: Rig, home: Installation):
    """Slack is asked once for a person whom many ask for, and again when that is long ago."""
    found = await asyncio.gather(*(rig.people.find(home, "UANN") for _ in range(5)))
    assert {person.name for person in found} == {"Ann Lee"}
    await rig.people.find(home, "UANN")
    assert len(rig.stand_in.called("users.info")) == 1
    rig.clock.advance(AGE / 1000)
    await rig.people.find(home, "UANN")
    assert len(rig.stand_in.called("users.info")) == 2


async def test_few_people_are_remembered(rig: Rig, home: Installation):
    """Of more people than there is room for, those whom Slack was asked about first are forgotten."""
    people = People(rig.clock, size=2)
    for user in ("UANN", "UBEN", "UANN", "UCLEO"):
        await people.find(home, user)
    assert [people.cached(home, user) is not None for user in ("UANN", "UBEN", "UCLEO")] == [False, True, True]


async def test_a_name_that_cannot_be_found_is_left_out(rig: Rig, home: Installation):
    """Names come as far as they are known in time, and one missing name costs no other."""
    until = asyncio.get_running_loop().time() + 60
    assert await rig.people.names(home, ["UANN", "UNOBODY"], until=until) == {"UANN": "Ann Lee"}
    with pytest.raises(TargetMissing):
        await rig.people.find(home, "UNOBODY")
    assert await rig.people.names(home, ["UANN", "UBEN"], until=0) == {"UANN": "Ann Lee"}


async def test_a_call_that_may_have_failed_is_made_again(rig: Rig, home: Installation):
    """Looking a person up twice does no harm."""
    rig.stand_in.fault(InjectedFault("answer_lost", on="users.info"))
    assert (await rig.people.find(home, "UANN")).name == "Ann Lee"


async def test_the_same_id_in_two_workspaces_is_two_people(rig: Rig, home: Installation):
    """What is known of a person is known of them in one workspace."""
    await rig.people.find(home, "UANN")
    other = await rig.workspaces.find("T0002")
    assert (await rig.people.find(other, "UANN")).team == "T0002"
