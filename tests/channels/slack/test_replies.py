"""Several people in a thread: who wrote what, and a person who answers from outside of Slack."""

import pytest

from agent_core.messages import Actor
from channels.ledger import show_again
from tests.agent_core.stage import texts as unmarked_texts
from tests.channels.slack.answers import words
from tests.channels.slack.conversations import converse, done, spoken
from tests.channels.slack.rig import Rig, texts
from tests.conftest import Fresh

pytestmark = pytest.mark.sqlite  # as with a crowd: the time is virtual
MEG = Actor("operator:key_1", "service", "Meg")


def test_a_thread_gets_it_once(fresh: Fresh):
    """A thread that rests is woken and gets the answer once, with the name; the next message goes to the agent."""

    async def play(rig: Rig) -> None:
        root = (await rig.team.mentions("UANN", "CGENERAL", "hello")).ts
        await done(rig, rig.team, root)
        session = await rig.session("CGENERAL", root)
        assert session is not None
        busy = rig.stand_in.called("agents.sessions.setStatus")
        for _ in range(2):
            await rig.core.replies.give(session.id, "I <!here> look.", by=MEG, key="k", also=show_again)
            shown = await done(rig, rig.team, root, 2)
        assert words(shown[1].text)[:1] == ["Meg"]
        assert "look" in words(shown[1].text)
        assert len(rig.stand_in.called("chat.postMessage")) == 1
        assert rig.stand_in.called("agents.sessions.setStatus") == busy, "the agent has done nothing"
        await rig.team.says("UANN", "CGENERAL", "again", root)
        shown = await done(rig, rig.team, root, 3)
        assert [each.text for each in (shown[0], shown[2])] == ["You said hello.", "You said again."]

    converse(fresh, play, lambda asked: spoken([f"You said {texts(asked)[-1]}."], 0.1))


def test_a_thread_has_names(fresh: Fresh):
    """In a channel the model reads who wrote each message from the first on; in a direct message no name is needed."""

    async def play(rig: Rig) -> None:
        root = (await rig.team.mentions("UANN", "CGENERAL", "hello")).ts
        await done(rig, rig.team, root)
        await rig.team.says("UBEN", "CGENERAL", "me too", root)
        await done(rig, rig.team, root, 2)
        names = [text.partition("\n\n")[0] for role, text in unmarked_texts(rig.model.requests[1]) if role == "user"]
        assert names == ["[speaker] Ann Lee", "[speaker] Ben Okoro"]

    converse(fresh, play, lambda asked: spoken([f"You said {texts(asked)[-1]}."], 0.1))
