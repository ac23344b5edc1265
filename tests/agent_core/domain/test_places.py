"""Places: which agent answers where."""

import msgspec
import pytest

from agent_core import ConfigError, Definition, InvalidInput, Slack, conflicts, route
from tests.conftest import MakeCore


def agent(name: str, **slack) -> Definition:
    return Definition(name=name, instructions="Be there.", slack=Slack(**slack))


def test_a_channel_goes_to_the_agent_that_claims_it():
    """Who claims a channel, here or in every workspace, answers there; elsewhere the workspace's default does."""
    agents = [
        agent("everywhere", default=("T2", "T3")),
        agent("ops", channels=("C1", "T2/C2")),
        agent("home", default=("T1",)),
        agent("nowhere"),
    ]
    asked = [("T1", "C1"), ("T2", "C1"), ("T2", "C2"), ("T1", "C2"), ("T3", "C9"), ("T4", "C9")]
    assert [route(agents, *place) for place in asked] == ["ops", "ops", "ops", "home", "everywhere", None]
    assert route([agent("one", default=True)], "T9", "C9") == "one"
    assert [route(reversed(agents), *place) for place in asked] == [route(agents, *place) for place in asked]


@pytest.mark.parametrize(
    ("one", "two", "path", "claim"),
    [
        ({"channels": ("C1",)}, {"channels": ("C2", "C1")}, "channels", "C1"),
        ({"channels": ("T1/C1",)}, {"channels": ("T1/C1",)}, "channels", "C1"),
        ({"channels": ("C1",)}, {"channels": ("T1/C1",)}, "channels", "C1"),
        ({"default": True}, {"default": True}, "default", "*"),
        ({"default": ("T1", "T2")}, {"default": ("T2",)}, "default", "T2"),
        ({"default": True}, {"default": ("T2",)}, "default", "T2"),
        ({"default": ("T2",)}, {"default": True}, "default", "T2"),
    ],
)
def test_two_agents_that_claim_one_place_are_found(one, two, path, claim):
    """One channel, or one workspace's default, claimed by two agents is a clash that names both."""
    (clash,) = conflicts([agent("ant", **one), agent("bee", **two)])
    assert (clash.first, clash.second, clash.path, clash.claim) == ("ant", "bee", path, claim)
    assert "`ant` and `bee`" in str(clash)


def test_places_beside_each_other_do_not_clash():
    """One channel id in two workspaces, defaults of two workspaces and one's own claims leave each other alone."""
    ant = agent("ant", channels=("T1/C1", "C3", "T1/C3"), default=("T1",))
    bee = agent("bee", channels=("T2/C1", "C4"), default=("T2",))
    assert conflicts([ant, bee, agent("cat"), agent("dog", default=False)]) == []


@pytest.mark.parametrize(
    ("slack", "path"),
    [
        ({"default": ()}, "slack.default"),
        ({"default": ("acme",)}, "slack.default[0]"),
        ({"channels": ("C1", "#general")}, "slack.channels[1]"),
        ({"channels": ("/C1",)}, "slack.channels[0]"),
        ({"channels": ("T1/C1/2",)}, "slack.channels[0]"),
        ({"loading": ("x",) * 11}, "slack.loading"),
        ({"loading": ("Thinking", " ")}, "slack.loading[1]"),
        ({"loading": ("two\nlines",)}, "slack.loading[0]"),
    ],
)
async def test_what_can_be_no_place_is_refused_with_its_field(make_core: MakeCore, slack, path):
    """Names in the place of ids, empty lists and texts that fit no line are refused, and the field is named."""
    core = await make_core()
    with pytest.raises(InvalidInput) as caught:
        await core.agents.create(agent("scout", **slack))
    assert caught.value.path == path


async def test_a_claimed_place_is_refused(make_core: MakeCore):
    """Making or changing an agent so that it claims another's channel is refused with both names; its own it keeps."""
    core = await make_core()
    await core.agents.create(agent("ops", channels=("C1",)))
    await core.agents.create(agent("web"))
    with pytest.raises(InvalidInput, match="`ops` and `new`"):
        await core.agents.create(agent("new", channels=("T1/C1",)))
    with pytest.raises(InvalidInput, match=r"`slack.channels`: `ops` and `web`"):
        await core.agents.update("web", {"slack": {"channels": ["C1"]}})
    kept = await core.agents.update("ops", {"slack": {"follow_up": False}})
    assert kept.definition.slack == Slack(channels=("C1",), follow_up=False)
    await core.agents.update("ops", {"slack": {"channels": []}})
    assert (await core.agents.update("web", {"slack": {"channels": ["C1"]}})).version == 2
    assert route([each.definition for each in await core.agents.all()], "T1", "C1") == "web"


async def test_files_that_claim_a_taken_place_do_not_start(make_core: MakeCore):
    """A file that claims what an agent of the API claims fails the start with both names, and changes nothing."""
    core = await make_core()
    await core.agents.create(agent("ops", default=True))
    with pytest.raises(ConfigError, match="`ops` and `filed`"):
        await core.agents.sync_files([agent("filed", default=("T1",))])
    assert [each.definition.name for each in await core.agents.all()] == ["assistant", "ops"]
    await core.agents.sync_files([agent("filed", channels=("C1",))])


def test_settings_read_as_they_are_written():
    """`default` is yes, no or a list of workspaces, in JSON as in YAML; anything unknown is refused."""
    for default in (True, False, ("T1",)):
        written = msgspec.to_builtins(agent("a", default=default))
        assert msgspec.convert(written, Definition).slack.default == default
    with pytest.raises(msgspec.ValidationError, match="extrenal"):
        msgspec.convert({"extrenal": "answer"}, Slack)
