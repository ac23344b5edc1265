"""A message that is queued while its conversation waits: its author reads so in the thread, once."""

import asyncio

import pytest

from agent_core.agents import DeclaredTool, Definition
from agent_core.testing import call, pause, say, step_of
from channels.slack.receive import QUEUED
from tests.channels.slack.cards.desk import LONG, Desk, asking
from tests.channels.slack.rig import rigged
from tests.channels.slack.test_twice import received_again

WHERE = DeclaredTool(
    name="where", kind="client", description="Return the place.", parameters={"type": "object", "properties": {}}
)


def notices(desk: Desk) -> list[str]:
    """Return the notices of the thread."""
    found = [each.text for each in desk.team.answers("CGENERAL", desk.root)]
    return [words for words in found if words.startswith(QUEUED)]


async def test_a_message_during_an_approval_names_its_responders(make_core):
    """Each message during the wait gets one sentence that names the call and its responders, and is answered later."""
    async with asking(make_core) as desk:
        await desk.ask()
        await desk.says("suspended")
        await desk.team.says("UBEN", "CGENERAL", "Any news?", desk.root)
        await desk.rig.stand_in.until(lambda: notices(desk), timeout=LONG)
        assert notices(desk) == [f"{QUEUED}an approval of pay by Ann Lee, operators."]
        assert desk.statuses() == ["processing", "suspended"]
        await desk.team.says("UANN", "CGENERAL", "Hello?", desk.root)
        await desk.rig.stand_in.until(lambda: len(notices(desk)) == 2, timeout=LONG)
        assert (await desk.press("UANN")).acked
        await desk.rig.stand_in.until(lambda: "That is done." in desk.text(), timeout=LONG)
        assert (len(notices(desk)), desk.till.amounts[:1]) == (2, [5])


async def test_a_message_that_comes_before_the_question_is_asked(make_core, monkeypatch: pytest.MonkeyPatch):
    """A message that is read while the agent works, and queued once its run waits, gets the sentence too."""
    gate = asyncio.Event()

    def answer(request):
        return [pause(gate), call("pay", to="Bob", amount=5)] if step_of(request) == 0 else [say("That is done.")]

    async with asking(make_core, answer=answer) as desk:
        desk.root = (await desk.team.mentions("UANN", "CGENERAL", "Pay Bob")).ts
        await desk.says("processing")
        look = desk.rig.receiver._mentions.look

        async def look_late(*about, **more):
            gate.set()
            await desk.says("suspended")
            return await look(*about, **more)

        monkeypatch.setattr(desk.rig.receiver._mentions, "look", look_late)
        await desk.team.says("UBEN", "CGENERAL", "Any news?", desk.root)
        await desk.rig.stand_in.until(lambda: notices(desk), timeout=LONG)
        assert len(notices(desk)) == 1


async def test_a_message_that_slack_sends_again_is_noticed_once(make_core):
    """The same event again, with its own id or another and to a process that remembers nothing, posts no second one."""
    async with asking(make_core) as desk:
        await desk.ask()
        await desk.says("suspended")
        dispatched = await desk.team.says("UBEN", "CGENERAL", "Any news?", desk.root)
        await desk.rig.stand_in.until(lambda: notices(desk), timeout=LONG)
        for event_id in (None, "Ev0ANOTHER"):
            await received_again(desk.rig, list(dispatched.deliveries), event_id=event_id)
        await desk.rig.receiver.close()  # what it began beside the answers is over
        assert len(notices(desk)) == 1


async def test_a_message_while_the_agent_works_gets_no_notice(make_core):
    """A conversation that waits for nothing is answered without a word about its queue."""
    async with asking(make_core, hooks=()) as desk:
        desk.root = (await desk.team.mentions("UANN", "CGENERAL", "Pay Bob")).ts
        await desk.team.says("UBEN", "CGENERAL", "Any news?", desk.root)
        await desk.rig.ended("CGENERAL", desk.root)
        await desk.rig.receiver.close()
        assert notices(desk) == []


async def test_a_message_during_a_client_call_names_the_tool(make_core):
    """Where a client's result is awaited the sentence names the tool."""

    def answer(request):
        return [call("where")] if step_of(request) == 0 else [say("Done.")]

    guide = Definition(name="guide", instructions="", tools=(WHERE,), channels={"slack": {"channels": ["CDATA"]}})
    async with rigged(make_core, answer=answer, agents=(guide,)) as rig:
        root = (await rig.team.mentions("UANN", "CDATA", "Where am I?")).ts
        await rig.ended("CDATA", root)
        await rig.team.says("UANN", "CDATA", "Hello?", root)

        def said() -> list[str]:
            return [each.text for each in rig.team.answers("CDATA", root)]

        await rig.stand_in.until(said, timeout=LONG)
        assert said() == [f"{QUEUED}the result of where, which a client executes."]
