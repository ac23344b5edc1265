"""What the Messages tab suggests."""

from channels.slack.settings import PROMPTS, Prompt, Slack
from tests.channels.slack.rig import rigged


async def test_opening_the_messages_tab_shows_suggestions(make_core):
    """The Messages tab has its prompts; the Home tab has none."""
    async with rigged(make_core) as rig:
        await rig.team.opens_home("UANN", "home")
        await rig.team.opens_home("UANN", "messages")
        await rig.stand_in.until(lambda: rig.team.prompts("UANN") is not None)
        assert len(rig.stand_in.called("assistant.threads.setSuggestedPrompts")) == 1


async def test_an_agent_has_its_own_suggestions(make_core):
    """Above the Messages tab are the prompts of the agent that answers there, and Parley's own where it has none."""
    orders = Prompt("My orders", "What have I ordered?")
    async with rigged(make_core, slack=Slack(default=("T0001",), prompts=(orders,)), shown=True, hasty=True) as rig:
        teams = [rig.team, rig.stand_in.team("T0002")]
        for team in teams:
            await team.opens_home("UANN")
        await rig.stand_in.until(lambda: all(team.prompts("UANN") for team in teams))
        shown = [(team.prompts("UANN") or {})["prompts"] for team in teams]
        assert shown == [[{"title": "My orders", "message": "What have I ordered?"}], list(PROMPTS)]
