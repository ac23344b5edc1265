"""What is in the frozen prompt of a session, and what never is: nothing that changes from message to message."""

import msgspec

from agent_core.agent.snapshot import ContextText
from agent_core.agents import Definition, Persona
from agent_core.channels import Context, Inbound
from agent_core.events import ContextKind, SnapshotFrozen, StepStarted
from agent_core.messages import Actor, Text
from agent_core.testing import FakeClock, call, say
from agent_core.tools.functions import tool
from tests.agent_core.laws import check_log
from tests.agent_core.stage import ANN, Stage, set_stage, texts
from tests.conftest import MakeCore

NAME = "Bob Builder"
BOB = Actor("bob", "user", NAME)
VOLATILE: dict[ContextKind, str] = {
    "clock": "It is Monday, 08:15.",
    "memory": "Ann drinks tea.",
    "knowledge": "Tea is hot.",
    "tools": "There is a new tool.",
    "note": "She is on the phone.",
}


class Sources:
    """A context source that gives one text of each kind."""

    name = "sources"

    async def context(self, _opening, /):
        return [ContextText(source=source, text=text) for source, text in VOLATILE.items()]


@tool
async def look() -> str:
    """Look something up."""
    return "It is a quarter past eight."


async def test_nothing_volatile_is_in_the_prompt(make_core: MakeCore):
    """Names, times, threads and what is recalled come with the newest message; the prompt is the agent's alone."""
    clock = FakeClock()
    script = [(call("look"),), (say("One."),), (say("Two."),), (say("Three."),)]
    stage = await set_stage(make_core, script, tools=[look], clock=clock, context_sources=[Sources()])
    await stage.play("one")
    clock.advance(60)
    thread = (Context(text="Where is the wood?", author="Cy Carter"),)
    second = Inbound(parts=(Text("two"),), actor=BOB, context=thread, metadata={"place": "harbour"})
    await stage.done((await stage.core.receive(stage.session, second)).run)
    other = await stage.core.open_session(agent="assistant", actor=BOB, metadata={"place": "wharf"})
    await Stage(stage.core, stage.provider, other.id).play("three")
    requests = stage.provider.requests
    (snapshot,) = {msgspec.json.encode(request.snapshot) for request in requests}
    said = " ".join(text for request in requests for _, text in texts(request))
    for volatile in (*VOLATILE.values(), NAME, "Cy Carter", "Where is the wood?", "two"):
        assert volatile in said
        assert volatile.encode() not in snapshot
    marker = (await stage.core._cache.get(stage.session)).window.frames.marker
    held = (BOB.id.encode(), b"harbour", b"wharf", stage.session.encode(), marker.encode())
    assert [each for each in held if each in snapshot] == []
    check_log(await stage.log())


async def test_every_step_names_its_prompt(make_core: MakeCore):
    """Each `step.started` has the hash of the snapshot that was sent, the one that the log froze."""
    stage = await set_stage(make_core, [(call("look"),), (say("One."),), (say("Two."),)], tools=[look])
    await stage.play("one")
    await stage.play("two")
    (frozen,) = await stage.said(SnapshotFrozen)
    assert [step.snapshot for step in await stage.said(StepStarted)] == [frozen.hash] * 3
    assert {request.snapshot.hash for request in stage.provider.requests} == {frozen.hash}


async def test_sessions_of_an_agent_share_their_prompt(make_core: MakeCore):
    """Two people's sessions, and those of an equal agent, have one snapshot: the provider's cache serves all."""
    stage = await set_stage(make_core, lambda _: (say("Yes."),))
    await stage.core.agents.update("assistant", {"persona": {"identity": "You are Otto."}})
    await stage.core.agents.create(
        Definition(name="twin", instructions="Be brief.", persona=Persona(identity="You are Otto."))
    )
    for agent, actor in (("assistant", ANN), ("assistant", BOB), ("twin", ANN)):
        session = await stage.core.open_session(agent=agent, actor=actor)
        await Stage(stage.core, stage.provider, session.id).play("one")
    (first, *more) = [request.snapshot for request in stage.provider.requests]
    assert "Who you are: You are Otto." in first.shared
    assert more == [first, first]
