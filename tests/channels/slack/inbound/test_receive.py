"""What becomes of what people do in Slack: each message reaches its agent once, over real requests."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from agent_core.agents import Definition
from agent_core.errors import Unavailable
from agent_core.testing import pause, say
from channels.slack.blocks import feedback_row
from channels.slack.context import CLOSED, OUTSIDE, UNKNOWN
from channels.slack.people import Lately
from channels.slack.receive import ABSENT, DAY
from channels.slack.settings import Slack
from channels.slack.testing import Channel, InjectedFault
from tests.channels.slack.rig import Rig, rigged

pytestmark = pytest.mark.sampled(2)


class GatedModel:
    """Lets the model answer once it is opened."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    def __call__(self, _):
        return [pause(self.opened), say("Done.")]


@pytest.fixture
def gate() -> GatedModel:
    return GatedModel()


@pytest.fixture
async def rig(make_core) -> AsyncIterator[Rig]:
    async with rigged(make_core) as made:
        yield made


@pytest.fixture
async def busy(make_core, gate: GatedModel) -> AsyncIterator[Rig]:
    """A model that answers only once the gate is opened."""
    async with rigged(make_core, answer=gate) as made:
        yield made
        gate.opened.set()


async def test_a_mention_that_arrives_as_two_events_is_answered_once(rig: Rig):
    """The two events of a mention are one message, by its author, without the mention, in its own thread."""
    dispatched = await rig.team.mentions("UANN", "CGENERAL", "what is *6 &amp; 7*?")
    assert dispatched.acked
    assert len(dispatched.deliveries) == 2
    await rig.ended("CGENERAL", dispatched.ts)
    session = await rig.session("CGENERAL", dispatched.ts)
    assert session is not None
    assert (session.actor.id, session.actor.name, session.actor.kind) == ("slack:T0001:UANN", "Ann Lee", "user")
    assert len(await rig.said("CGENERAL", dispatched.ts)) == rig.model.calls == 1
    assert not rig.seen()[-1].startswith("<@")
    assert rig.shows.log[:2] == [("want", session.id), ("show", session.id)]
    thread = rig.shows.threads[0]
    assert (thread.team, thread.channel, thread.root) == ("T0001", "CGENERAL", dispatched.ts)
    assert (thread.user, thread.user_team, thread.is_dm, thread.agent) == ("UANN", "T0001", False, "assistant")


async def test_each_direct_message_is_the_root_of_a_thread(rig: Rig):
    """In the Messages tab no mention is needed, and each message at the top begins a conversation."""
    first = await rig.team.says("UANN", "UANN", "Hello")
    second = await rig.team.says("UANN", "UANN", "Something else")
    await rig.team.says("UANN", "UANN", "More of the first", first.ts)
    assert await rig.said("DANN", first.ts) == ["Hello", "More of the first"]
    assert await rig.said("DANN", second.ts) == ["Something else"]
    assert [thread for thread in rig.shows.threads if not thread.is_dm] == []


async def test_once_in_a_thread_the_agent_needs_no_mention(rig: Rig):
    """A reply in its thread is for the agent; what people say elsewhere in the channel is not."""
    dispatched = await rig.team.mentions("UANN", "CGENERAL", "hello")
    await rig.team.says("UBEN", "CGENERAL", "and I too", dispatched.ts)
    other = await rig.team.says("UBEN", "CGENERAL", "lunch?")
    await rig.team.says("UANN", "CGENERAL", "yes", other.ts)
    assert await rig.said("CGENERAL", dispatched.ts) == ["hello", "and I too"]
    assert await rig.session("CGENERAL", other.ts) is None


async def test_an_agent_may_wait_to_be_called_each_time(make_core):
    """With `follow_up` off a reply is for people, and what was said meanwhile comes with the next mention."""
    async with rigged(make_core, slack=Slack(default=True, follow_up=False)) as rig:
        dispatched = await rig.team.mentions("UANN", "CGENERAL", "hello")
        await rig.ended("CGENERAL", dispatched.ts)
        await rig.team.says("UBEN", "CGENERAL", "I think it is blue", dispatched.ts)
        await rig.team.mentions("UANN", "CGENERAL", "what does Ben think?", dispatched.ts)
        await rig.ended("CGENERAL", dispatched.ts)
        assert await rig.said("CGENERAL", dispatched.ts) == ["hello", "what does Ben think?"]
        assert any("| Ben Okoro: I think it is blue" in text for text in rig.seen())


async def test_an_edit_corrects_a_message_that_waits(busy: Rig, gate: GatedModel):
    """The model gets the words as they stand when it comes to them; a link's preview changes nothing."""
    dispatched = await busy.team.mentions("UANN", "CGENERAL", "first")
    await busy.model.asked(1)
    later = await busy.team.says("UANN", "CGENERAL", "secnod", dispatched.ts)
    await busy.team.edits("UANN", "CGENERAL", later.ts, "second, with a <https://a.example|link>")
    await busy.team.unfurls("CGENERAL", later.ts)
    gate.opened.set()
    await busy.ended("CGENERAL", dispatched.ts)
    assert busy.seen()[-1] == "second, with a link (https://a.example)"
    assert busy.model.calls == 2


async def test_an_edit_may_come_before_its_message(rig: Rig):
    """What arrives out of order is answered once, as it reads by then."""
    rig.stand_in.fault(InjectedFault("out_of_order", on="message"))
    dispatched = await rig.team.says("UANN", "UANN", "helo")
    edited = await rig.team.edits("UANN", "UANN", dispatched.ts, "hello")
    await dispatched.finished()
    assert edited.acked
    await rig.ended("DANN", dispatched.ts)
    assert await rig.said("DANN", dispatched.ts) == ["hello"]
    assert rig.model.calls == 1


async def test_what_is_deleted_in_time_is_not_answered(busy: Rig, gate: GatedModel):
    """A message that waits and is deleted never reaches the model."""
    dispatched = await busy.team.mentions("UANN", "CGENERAL", "first")
    await busy.model.asked(1)
    later = await busy.team.says("UANN", "CGENERAL", "never mind", dispatched.ts)
    assert (await busy.team.deletes("UANN", "CGENERAL", later.ts)).acked
    gate.opened.set()
    await busy.ended("CGENERAL", dispatched.ts)
    assert busy.model.calls == 1


async def test_a_deletion_may_come_before_its_message(rig: Rig):
    """What was deleted by the time that it arrives is not answered."""
    rig.stand_in.fault(InjectedFault("out_of_order", on="message"))
    dispatched = await rig.team.says("UANN", "UANN", "never mind")
    assert (await rig.team.deletes("UANN", "UANN", dispatched.ts)).acked
    assert (await dispatched.finished()).acked
    assert (await rig.core.sessions()).items == ()


async def test_bots_are_not_answered(rig: Rig):
    """What another bot says asks for nothing, not even by name, and our own words least of all."""
    dispatched = await rig.team.mentions("UANN", "CGENERAL", "hello")
    for text, root in (
        ("<@UPARLEY> hello", None),
        ("a build failed", dispatched.ts),
        ("<@UPARLEY> well?", dispatched.ts),
    ):
        assert (await rig.team.says("UBUILD", "CGENERAL", text, root)).acked
    space = await rig.workspaces.space("T0001")
    await space.api.post("CGENERAL", "<@UPARLEY> answer yourself", thread_ts=dispatched.ts)
    await rig.stand_in.until(lambda: rig.stand_in.sent[-1].acked)
    assert await rig.said("CGENERAL", dispatched.ts) == ["hello"]


async def test_stop_ends_what_runs_and_clears_what_waits(busy: Rig):
    """After a Stop nothing that was asked before it is answered."""
    dispatched = await busy.team.mentions("UANN", "CGENERAL", "first")
    await busy.model.asked(1)
    await busy.team.says("UANN", "CGENERAL", "second", dispatched.ts)
    assert (await busy.team.stops("UBEN", "CGENERAL", dispatched.ts)).acked
    await busy.ended("CGENERAL", dispatched.ts)
    session = await busy.session("CGENERAL", dispatched.ts)
    assert session is not None
    runs = (await busy.core.runs(session=session.id)).items
    assert [run.status for run in runs] == ["cancelled", "cancelled"]
    assert busy.shows.log[-1] == ("show", session.id)


async def test_a_stop_that_comes_late_leaves_what_was_asked_since(busy: Rig):
    """A Stop is for what was there when it was pressed, however often Slack reports it."""
    dispatched = await busy.team.mentions("UANN", "CGENERAL", "first")
    await busy.model.asked(1)
    busy.stand_in.fault(InjectedFault("late", on="agent_session_stopped", seconds=30))
    stop = await busy.team.stops("UANN", "CGENERAL", dispatched.ts)
    busy.clock.advance(5)
    await busy.team.says("UANN", "CGENERAL", "second", dispatched.ts)
    busy.clock.advance(30)
    await stop.finished()
    session = await busy.session("CGENERAL", dispatched.ts)
    assert session is not None
    await busy.model.asked(2)
    statuses = [run.status for run in (await busy.core.runs(session=session.id)).items]
    assert statuses == ["running", "cancelled"]


async def test_feedback_is_kept_against_the_run(rig: Rig):
    """A press on a feedback button is an opinion of that person on that run; a second one replaces it."""
    dispatched = await rig.team.mentions("UANN", "CGENERAL", "hello")
    await rig.ended("CGENERAL", dispatched.ts)
    run = (await rig.core.runs()).items[0]
    space = await rig.workspaces.space("T0001")
    ts = await space.api.post("CGENERAL", "Done.", blocks=[feedback_row(run.id)], thread_ts=dispatched.ts)
    await rig.team.presses("UANN", "CGENERAL", ts, "feedback", f"{run.id}:up")
    await rig.team.presses("UANN", "CGENERAL", ts, "feedback", f"{run.id}:down")
    found = (await rig.core.run(run.id)).feedback
    assert [(each.actor.id, each.rating) for each in found] == [("slack:T0001:UANN", "down")]


async def test_a_channel_has_its_agent(make_core):
    """The agent that claims a channel answers there, in the workspace that it names, and the default elsewhere."""
    data = Definition(name="data", instructions="Count.", channels={"slack": {"channels": ["T0001/CDATA"]}})
    async with rigged(make_core, agents=(data,)) as rig:
        await rig.team.mentions("UANN", "CDATA", "hello")
        await rig.team.mentions("UANN", "CGENERAL", "hello")
        await rig.stand_in.team("T0002").mentions("UANN", "CDATA", "hello")
        assert [thread.agent for thread in rig.shows.threads[::2]] == ["data", "assistant", "assistant"]


async def test_where_no_agent_answers_people_are_notified_once(make_core):
    """A person who calls an agent where none answers reads why, alone and only once a day."""
    async with rigged(make_core, slack=Slack()) as rig:
        first = await rig.team.mentions("UANN", "CGENERAL", "hello")
        second = await rig.team.mentions("UANN", "CGENERAL", "hello?")
        await rig.stand_in.until(lambda: rig.stand_in.called("chat.postEphemeral"))
        assert (first.acked, second.acked) == (True, True)
        called = rig.stand_in.called("chat.postEphemeral")
        assert [(call.arguments["user"], "CGENERAL" in call.arguments["text"]) for call in called] == [("UANN", True)]
        assert (await rig.core.sessions()).items == ()


@pytest.mark.parametrize(("user", "channel"), [("UGUEST", "CGENERAL"), ("USAM", "CSHARED")])
async def test_outsiders_are_refused_politely(rig: Rig, user: str, channel: str):
    """Guests and people of other organisations are notified once that they get no answer."""
    await rig.team.mentions(user, channel, "tell me all")
    await rig.team.mentions(user, channel, "please")
    await rig.stand_in.until(lambda: rig.stand_in.called("chat.postEphemeral"))
    notices = [call.arguments["text"] for call in rig.stand_in.called("chat.postEphemeral")]
    assert notices == [OUTSIDE]
    assert (await rig.core.sessions()).items == ()


async def test_an_agent_may_answer_outsiders(make_core):
    """With `external: answer` a stranger is answered like anybody else, as one of their own workspace."""
    async with rigged(make_core, slack=Slack(default=True, external="answer")) as rig:
        dispatched = await rig.team.mentions("USAM", "CSHARED", "hello")
        assert await rig.said("CSHARED", dispatched.ts) == ["hello"]
        assert rig.shows.threads[0].user_team == "TOTHER"


async def test_a_missing_scope_is_named_in_the_log_and_refuses_everyone(rig: Rig):
    """A person who may be an outsider is not answered; the log names the scope that is missing."""
    workspace = rig.team.workspace
    workspace.scopes = workspace.scopes - {"users:read"}
    with capture_logs() as logs:
        await rig.team.mentions("UANN", "CGENERAL", "hello")
        await rig.team.says("UANN", "UANN", "hello")
    records = [each for each in logs if "users:read" in each.get("error", "")]
    assert [(each["event"], each["log_level"]) for each in records] == [("slack.refused", "warning")]
    await rig.stand_in.until(lambda: rig.stand_in.called("chat.postEphemeral"))
    assert rig.stand_in.called("chat.postEphemeral")[0].arguments["text"] == UNKNOWN
    assert (await rig.core.sessions()).items == ()


async def test_a_person_may_be_looked_up_again(rig: Rig):
    """When Slack does not say in time whether a person is a guest, the event comes again and is answered then."""
    rig.stand_in.fault(InjectedFault("server_error", on="users.info", times=2))
    dispatched = await rig.team.says("UANN", "UANN", "hello")
    assert dispatched.failures == ("http_error",)
    assert dispatched.acked
    assert await rig.said("DANN", dispatched.ts) == ["hello"]


async def test_an_outage_of_the_database_loses_nothing(rig: Rig, monkeypatch):
    """What cannot be kept is not acknowledged: Slack sends it again."""
    found, calls = rig.core.find_session, 0

    async def away(address: str):
        nonlocal calls
        calls += 1
        if calls == 1:
            raise Unavailable("The database is away.")
        return await found(address)

    monkeypatch.setattr(rig.core, "find_session", away)
    dispatched = await rig.team.says("UANN", "UANN", "hello")
    assert dispatched.failures == ("http_error",)
    assert dispatched.acked
    assert await rig.said("DANN", dispatched.ts) == ["hello"]


@pytest.mark.parametrize("kind", ["duplicate", "late", "out_of_order"])
async def test_a_message_may_arrive_twice_late_or_out_of_order(rig: Rig, kind):
    """However its event comes, a message is taken in once."""
    rig.stand_in.fault(InjectedFault(kind, on="message", seconds=45))
    first = await rig.team.says("UANN", "UANN", "hello")
    second = await rig.team.says("UANN", "UANN", "more", first.ts)
    rig.clock.advance(60)
    await first.finished()
    await second.finished()
    assert sorted(await rig.said("DANN", first.ts)) == ["hello", "more"]


async def test_a_reply_may_come_before_what_it_replies_to(rig: Rig):
    """When a mention comes late, the replies that were skipped until then are answered after it, each once."""
    rig.stand_in.fault(InjectedFault("late", times=2, seconds=60))
    rig.stand_in.fault(InjectedFault("server_error", on="conversations.replies"))
    dispatched = await rig.team.mentions("UANN", "CGENERAL", "hello")
    rig.clock.advance(5)
    for user in ("UBEN", "UBUILD"):
        assert (await rig.team.says(user, "CGENERAL", f"and {user}", dispatched.ts)).acked
    assert (await rig.core.sessions()).items == ()
    rig.clock.advance(60)
    await dispatched.finished()
    await rig.stand_in.until(lambda: rig.stand_in.called("conversations.replies"))
    rig.clock.advance(5)
    await rig.model.asked(2)
    await rig.ended("CGENERAL", dispatched.ts)
    assert await rig.said("CGENERAL", dispatched.ts) == ["hello", "and UBEN"]


async def test_two_workspaces_share_nothing(rig: Rig):
    """The same ids in two workspaces are two conversations with two people."""
    globex = rig.stand_in.team("T0002")
    for team in (rig.team, globex):
        dispatched = await team.says("UANN", "UANN", f"I am of {team.id}")
        session = await rig.session("DANN", dispatched.ts, team.id)
        assert session is not None
        assert session.actor.id == f"slack:{team.id}:UANN"
    assert len((await rig.core.sessions()).items) == 2


@pytest.mark.parametrize("ours", [True, False], ids=["known", "another process"])
async def test_a_message_that_was_deleted_before_it_came_is_not_answered(rig: Rig, ours: bool):
    """A message that comes late is looked up: if it was deleted, it is not answered."""
    rig.stand_in.fault(InjectedFault("late", on="message", seconds=60))
    dispatched = await rig.team.says("UANN", "UANN", "hello")
    await rig.team.deletes("UANN", "DANN", dispatched.ts)
    if not ours:
        rig.receiver._lately = Lately(rig.clock, DAY)
    rig.clock.advance(60)
    assert (await dispatched.finished()).acked
    assert (await rig.core.sessions()).items == ()


async def test_a_shortcut_asks_about_a_message(rig: Rig):
    """`Ask about this` opens a thread below the message, which the agent is shown with its author."""
    alert = await rig.team.says("UBUILD", "CGENERAL", "Build 17 failed")
    assert (await rig.team.shortcut("UANN", "ask_message", "CGENERAL", alert.ts)).acked
    await rig.ended("CGENERAL", alert.ts)
    assert sum("Build bot: Build 17 failed" in text for text in rig.seen()) == 1
    await rig.team.says("UANN", "CGENERAL", "and now?", alert.ts)
    assert len(await rig.said("CGENERAL", alert.ts)) == 2


@pytest.mark.parametrize("channel", ["CQUIET", "GHIDDEN"])
async def test_a_shortcut_where_the_app_is_not_says_so(rig: Rig, channel: str):
    """A person who asks about a message in a channel without the app, public or private, is asked to invite it."""
    rig.team.workspace.add(Channel("GHIDDEN", "hidden", "group", members={"UANN"}))
    said = await rig.team.says("UANN", channel, "look at this")
    await rig.team.shortcut("UANN", "ask_message", channel, said.ts)
    assert [each.text for each in rig.team.top(channel, user="UANN")] == ["look at this", ABSENT]
    assert (await rig.core.sessions()).items == ()


async def test_a_closed_conversation_says_so(rig: Rig):
    """In a conversation that an operator closed people read that they may begin another."""
    dispatched = await rig.team.says("UANN", "UANN", "hello")
    await rig.ended("DANN", dispatched.ts)
    session = await rig.session("DANN", dispatched.ts)
    assert session is not None
    await rig.core.close_session(session.id)
    assert (await rig.team.says("UANN", "UANN", "more", dispatched.ts)).acked
    await rig.stand_in.until(lambda: rig.stand_in.called("chat.postEphemeral"))
    assert rig.stand_in.called("chat.postEphemeral")[0].arguments["text"] == CLOSED
    await rig.stand_in.until(lambda: rig.team.session("DANN", dispatched.ts) is not None)
    shown = rig.team.session("DANN", dispatched.ts)
    assert shown is not None
    assert shown.status == "closed"


async def test_a_person_beyond_their_quota_reads_why(rig: Rig):
    """A message that a quota refuses is acknowledged, and its author alone reads when to try again, once a minute."""
    name = (await rig.core.agents.all())[0].definition.name
    await rig.core.agents.update(name, {"limits": {"user": {"messages_per_day": 1}}})
    await rig.team.says("UANN", "UANN", "hello")
    for _ in range(2):
        assert (await rig.team.says("UANN", "UANN", "more")).acked
    await rig.stand_in.until(lambda: rig.stand_in.called("chat.postEphemeral"))
    (whispered,) = rig.stand_in.called("chat.postEphemeral")
    assert whispered.arguments["text"].startswith("You have sent 1 message within a day, as many")


async def test_a_session_that_is_renamed_in_slack_has_that_title(rig: Rig):
    """People name a conversation in Slack, and it is called so everywhere."""
    dispatched = await rig.team.mentions("UANN", "CGENERAL", "hello")
    await (await rig.workspaces.space("T0001")).api.set_status("CGENERAL", dispatched.ts, "processing")
    assert (await rig.team.renames("UBEN", "CGENERAL", dispatched.ts, "The figures of May")).acked
    session = await rig.session("CGENERAL", dispatched.ts)
    assert session is not None
    assert session.title == "The figures of May"
