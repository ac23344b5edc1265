"""The title of a session in Slack: the words of its first question, set once."""

from channels.slack.testing import InjectedFault
from tests.channels.slack.rig import Rig, rigged

LONG = 60.0


async def titled(rig: Rig, root: str, title: str) -> None:
    def is_titled() -> bool:
        session = rig.team.session("CGENERAL", root)
        return session is not None and (session.title, session.status) == (title, "active")

    await rig.stand_in.until(is_titled, timeout=LONG)


async def test_the_first_question_is_the_title(make_core):
    """It is set though the call that opened the session did not set it; later a person's choice is left alone."""
    async with rigged(make_core, shown=True, hasty=True) as rig:
        rig.stand_in.fault(InjectedFault("ratelimited", on="agents.sessions.setStatus", seconds=5))
        root = (await rig.team.mentions("UANN", "CGENERAL", "How are sales?")).ts
        await rig.stand_in.until(lambda: rig.team.answers("CGENERAL", root), timeout=LONG)
        await rig.clock.slept()
        rig.clock.advance(6)
        await titled(rig, root, "How are sales?")
        await rig.ended("CGENERAL", root)
        await rig.team.renames("UANN", "CGENERAL", root, "Sales of May")
        await rig.team.says("UANN", "CGENERAL", "And costs?", root)
        await rig.stand_in.until(lambda: len(rig.team.answers("CGENERAL", root)) == 2, timeout=LONG)
        await titled(rig, root, "Sales of May")
        assert len(rig.stand_in.called("agents.sessions.rename")) == 1


async def test_a_title_that_slack_limits_is_set_later(make_core):
    """A rate limit delays a title and nothing else."""
    async with rigged(make_core, shown=True, hasty=True) as rig:
        rig.stand_in.fault(InjectedFault("ratelimited", on="agents.sessions.rename", seconds=5))
        root = (await rig.team.mentions("UANN", "CGENERAL", "How are sales?")).ts
        await rig.stand_in.until(lambda: rig.team.answers("CGENERAL", root), timeout=LONG)
        await rig.clock.slept()
        rig.clock.advance(6)
        await titled(rig, root, "How are sales?")
