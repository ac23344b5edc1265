"""What an agent configures of Slack: which agent answers where."""

from typing import Any

import pytest

from agent_core.agents import Definition
from agent_core.errors import ConfigError, InvalidInput
from channels.slack import limits
from channels.slack.settings import MAX_PROMPTS, SETTINGS, Slack, conflicts, route, settings_of
from tests.cases import for_each
from tests.conftest import MakeCore


def agent(name: str, **slack: Any) -> Definition:
    return Definition(name=name, instructions="Be there.", channels={"slack": slack} if slack else {})


def test_a_channel_goes_to_the_agent_that_claims_it():
    """An agent answers in the channels it claims, here or in every workspace; elsewhere the default agent does."""
    agents = [
        agent("everywhere", default=["T2", "T3"]),
        agent("ops", channels=["C1", "T2/C2"]),
        agent("home", default=["T1"]),
        agent("nowhere"),
    ]
    asked = [("T1", "C1"), ("T2", "C1"), ("T2", "C2"), ("T1", "C2"), ("T3", "C9"), ("T4", "C9")]
    assert [route(agents, *place) for place in asked] == ["ops", "ops", "ops", "home", "everywhere", None]
    assert route([agent("one", default=True)], "T9", "C9") == "one"
    assert [route(reversed(agents), *place) for place in asked] == [route(agents, *place) for place in asked]


@for_each(
    "one, two, path, claim",
    [
        ({"channels": ("C1",)}, {"channels": ("C2", "C1")}, "channels", "the channel `C1`"),
        ({"channels": ("T1/C1",)}, {"channels": ("T1/C1",)}, "channels", "the channel `C1`"),
        ({"channels": ("C1",)}, {"channels": ("T1/C1",)}, "channels", "the channel `C1`"),
        ({"default": True}, {"default": True}, "default", "the default of every workspace"),
        ({"default": ("T1", "T2")}, {"default": ("T2",)}, "default", "the default of workspace `T2`"),
        ({"default": True}, {"default": ("T2",)}, "default", "the default of workspace `T2`"),
        ({"default": ("T2",)}, {"default": True}, "default", "the default of workspace `T2`"),
    ],
)
def test_two_agents_that_claim_one_place_are_found(one, two, path, claim):
    """One channel, or one workspace's default, claimed by two agents is a conflict that names both."""
    (conflict,) = conflicts([("ant", Slack(**one)), ("bee", Slack(**two))])
    assert (conflict.first, conflict.second, conflict.path, conflict.claim) == ("ant", "bee", path, claim)
    assert str(conflict) == f"`ant` and `bee` both claim {claim}; take it from one of them."


def test_places_beside_each_other_do_not_conflict():
    """One channel id in two workspaces, defaults of two workspaces and one agent's own claims do not conflict."""
    ant = Slack(channels=("T1/C1", "C3", "T1/C3"), default=("T1",))
    bee = Slack(channels=("T2/C1", "C4"), default=("T2",))
    assert conflicts([("ant", ant), ("bee", bee), ("cat", Slack()), ("dog", Slack(default=False))]) == []


@pytest.mark.parametrize(
    ("slack", "path"),
    [
        ({"default": []}, "slack.default"),
        ({"default": ["acme"]}, "slack.default[0]"),
        ({"default": 1}, "slack.default"),
        ({"channels": ["C1", "#general"]}, "slack.channels[1]"),
        ({"channels": ["/C1"]}, "slack.channels[0]"),
        ({"channels": ["T1/C1/2"]}, "slack.channels[0]"),
        ({"loading": ["x"] * 11}, "slack.loading"),
        ({"loading": ["Thinking", " "]}, "slack.loading[1]"),
        ({"loading": ["two\nlines"]}, "slack.loading[0]"),
        ({"extrenal": "answer"}, "slack.extrenal"),
        ({"prompts": [{"title": "x", "message": "y"}] * (MAX_PROMPTS + 1)}, "slack.prompts"),
        ({"prompts": [{"title": "x" * 76, "message": "y"}]}, "slack.prompts[0].title"),
        ({"prompts": [{"title": "two\nlines", "message": "y"}]}, "slack.prompts[0].title"),
        ({"prompts": [{"title": "x", "message": " "}]}, "slack.prompts[0].message"),
        ({"prompts": [{"title": "x"}]}, "slack.prompts[0]"),
        ({"prompts": ["x"]}, "slack.prompts[0]"),
    ],
)
async def test_invalid_settings_are_refused_with_their_field(make_core: MakeCore, slack, path):
    """Names in the place of ids, empty lists, unknown fields and texts of two lines are refused with the field."""
    core = await make_core()
    with pytest.raises(InvalidInput) as caught:
        await core.agents.create(agent("scout", **slack))
    assert caught.value.path == path


async def test_a_claimed_place_is_refused(make_core: MakeCore):
    """An agent cannot be created or changed to claim another's channel; it keeps its own."""
    core = await make_core()
    await core.agents.create(agent("ops", channels=["C1"]))
    await core.agents.create(agent("web"))
    with pytest.raises(InvalidInput, match="`ops` and `new`"):
        await core.agents.create(agent("new", channels=["T1/C1"]))
    with pytest.raises(InvalidInput, match=r"`slack.channels`: `ops` and `web`"):
        await core.agents.update("web", {"slack": {"channels": ["C1"]}})
    kept = await core.agents.update("ops", {"slack": {"follow_up": False}})
    assert settings_of(kept.definition) == Slack(channels=("C1",), follow_up=False)
    await core.agents.update("ops", {"slack": {"channels": []}})
    assert (await core.agents.update("web", {"slack": {"channels": ["C1"]}})).version == 2
    assert route([each.definition for each in await core.agents.all()], "T1", "C1") == "web"


async def test_files_that_claim_a_taken_place_do_not_start(make_core: MakeCore):
    """A file that claims what an agent of the API claims fails the start with both names, and changes nothing."""
    core = await make_core()
    await core.agents.create(agent("ops", default=True))
    with pytest.raises(ConfigError, match="`ops` and `filed`"):
        await core.agents.sync_files([agent("filed", default=["T1"])])
    assert [each.definition.name for each in await core.agents.all()] == ["assistant", "ops"]
    await core.agents.sync_files([agent("filed", channels=["C1"])])


def test_an_agent_has_as_many_prompts_as_slack_shows():
    """The bound is Slack's, and prompts are kept as they are written."""
    assert limits.PROMPTS == MAX_PROMPTS
    prompts = [{"title": f"Orders {n}", "message": "What is open?"} for n in range(MAX_PROMPTS)]
    assert SETTINGS.stored(SETTINGS.read({"prompts": prompts}))["prompts"] == prompts


def test_settings_read_as_they_are_written():
    """`default` is yes, no or a list of workspaces; the settings of every kind survive their stored form."""
    for default in (True, False, ("T1",)):
        stored = SETTINGS.stored(Slack(default=default))
        assert SETTINGS.of("slack", {"slack": stored}).default == default
    assert SETTINGS.of("slack", {"slack": {"default": True, "of_a_newer_version": 1}}) == Slack(default=True)
