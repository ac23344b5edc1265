"""A person's own conversations: found, renamed, deleted, and gone on with as copies where a message is said again."""

import asyncio

import pytest

from agent_core.agents import AgentDefaults, Limits
from agent_core.core import Core
from agent_core.errors import Conflict, InvalidInput, NotFound, RateLimited, SessionBusy, SessionClosed
from agent_core.events import HookRuled
from agent_core.messages import Actor, text_of
from agent_core.objects import SessionObject
from agent_core.quotas import ANYWHERE, Origin, VisitorQuota
from agent_core.runtime import services
from agent_core.store.listing import Wanted
from agent_core.testing import Answer, ScriptedProvider, by_step, call, pause, prefix_of, say
from tests.agent_core.asking import Till, asks, open_approvals, yes
from tests.agent_core.laws import check_log
from tests.agent_core.scenes import ANN, BOB, idle, log_of, open_session, say_and_wait, send, types
from tests.agent_core.stage import Stage
from tests.conftest import MakeCore

OPERATOR = Actor("operator:1", "service", "Olga")


def script(request) -> Answer:
    asked = [text_of(entry.message.parts) for entry in request.messages if entry.message.role == "user"]
    return (say("To ", asked[-1]),)


@pytest.fixture
def provider() -> ScriptedProvider:
    return ScriptedProvider(script)


@pytest.fixture
async def core(make_core: MakeCore, provider: ScriptedProvider) -> Core:
    return await make_core(provider, defaults=AgentDefaults(clock="UTC"))


async def branch(core: Core, session: str, message: str, by: Actor = ANN, origin: Origin = ANYWHERE) -> SessionObject:
    return await core.session(await core.conversations.branch(session, message, by=by, origin=origin))


async def said(core: Core, session: str) -> list[str]:
    return [text_of(message.parts) for message in (await core.messages(session)).items]


async def own(core: Core, words: str | None = None, actor: Actor = ANN) -> list[str]:
    wanted = Wanted(actor=actor.id, kinds={actor.kind}, own=True)
    return [each.id for each in (await core.conversations.find(wanted, words)).items]


async def test_the_newest_message_is_said_again_in_a_copy(core: Core, provider: ScriptedProvider):
    """The copy ends before the message and answers as if it never was; the session is closed, and names the copy."""
    session = await open_session(core, metadata={"shop": 1})
    for text in ("one", "two"):
        receipt = await say_and_wait(core, session, text)
    copy = await branch(core, session, receipt.message)
    assert (copy.forked_from, copy.replaced_by, copy.status, copy.metadata) == (session, None, "idle", {"shop": 1})
    assert await said(core, copy.id) == ["one", "To one"]
    before = await core.session(session)
    assert (before.status, before.replaced_by, before.forked_from) == ("closed", copy.id, None)
    assert {each.id for each in (await core.sessions()).items} == {session, copy.id}
    await say_and_wait(core, copy.id, "second")
    assert await own(core) == [copy.id]
    assert await said(core, copy.id) == ["one", "To one", "second", "To second"]
    assert prefix_of(provider.requests[2]).startswith(prefix_of(provider.requests[0]))
    check_log(await log_of(core, copy.id))


async def test_a_conversation_is_listed_until_something_is_said_in_its_copy(core: Core):
    """Its question and answer are found, the copy is not; to delete it deletes the copy too."""
    session = await open_session(core)
    await say_and_wait(core, session, "a cup")
    receipt = await say_and_wait(core, session, "a kettle")
    copy = await branch(core, session, receipt.message)
    await core.replies.give(copy.id, "Hello.", by=OPERATOR)
    assert (await own(core), await own(core, "kettle"), await own(core, "hello")) == ([session], [session], [])
    sent = await say_and_wait(core, copy.id, "a lid")
    assert (await own(core), await own(core, "kettle"), await own(core, "hello")) == ([copy.id], [], [copy.id])
    await branch(core, copy.id, sent.message)
    assert await own(core) == [copy.id]
    await core.conversations.remove(copy.id, by=ANN)
    assert (await core.sessions()).items == ()


async def test_the_first_message_is_said_again(core: Core):
    """A copy without a message is a session that was just opened."""
    session = await open_session(core)
    receipt = await say_and_wait(core, session, "one")
    copy = await branch(core, session, receipt.message)
    assert types(await log_of(core, copy.id)) == ["session.opened", "snapshot.frozen"]
    await say_and_wait(core, copy.id, "first")
    assert await said(core, copy.id) == ["first", "To first"]
    assert (await core.session(copy.id)).title == "first"


async def test_a_repeated_request_gives_the_same_copy(core: Core):
    """As long as nothing was said in the copy it is given again; then the session is closed."""
    session = await open_session(core)
    receipt = await say_and_wait(core, session, "one")
    copies = {(await branch(core, session, receipt.message)).id for _ in range(2)}
    assert len(copies) == 1
    await say_and_wait(core, copies.pop(), "first")
    with pytest.raises(SessionClosed):
        await branch(core, session, receipt.message)


async def test_two_at_once_make_one_copy(core: Core):
    """Two tabs that say the same message again at the same moment go on in one copy."""
    session = await open_session(core)
    receipt = await say_and_wait(core, session, "one")
    copies = await asyncio.gather(*(branch(core, session, receipt.message) for _ in range(4)))
    assert len({copy.id for copy in copies}) == 1
    assert len((await core.sessions()).items) == 2


async def test_only_ones_own_newest_message_is_said_again(core: Core):
    """An older message, another person's, one of another session and one that is none are refused alike."""
    session, other = await open_session(core), await open_session(core)
    first = await say_and_wait(core, session, "one")
    newest = await say_and_wait(core, session, "two")
    elsewhere = await say_and_wait(core, other, "three")
    for message, by in ((first, ANN), (newest, BOB), (elsewhere, ANN)):
        with pytest.raises(InvalidInput, match="your own newest message"):
            await branch(core, session, message.message, by)
    for wrong in ("msg_unknown", ""):
        with pytest.raises(InvalidInput, match="your own newest message"):
            await branch(core, session, wrong)
    with pytest.raises(NotFound):
        await branch(core, "ses_unknown", newest.message)
    assert (await core.session(session)).status == "idle"


async def test_nothing_is_said_again_while_a_run_works(make_core: MakeCore):
    """While a run is open the session stays as it is; and a message that came during another's answer stays too."""
    gate = asyncio.Event()
    core = await make_core(ScriptedProvider(lambda _: (say("Hi."), pause(gate))))
    session = await open_session(core)
    await send(core, session, "one")
    second = await send(core, session, "two")
    with pytest.raises(SessionBusy):
        await branch(core, session, second.message)
    gate.set()
    await idle(core, session)
    with pytest.raises(Conflict, match="another answer was under way"):
        await branch(core, session, second.message)
    assert (await core.session(session)).replaced_by is None


async def test_what_a_person_answered_is_not_lost(core: Core):
    """After a reply of a person of the team, and where a channel has the session, nothing is said again."""
    session = await open_session(core)
    receipt = await say_and_wait(core, session, "one")
    await core.replies.give(session, "I am on it.", by=OPERATOR)
    with pytest.raises(Conflict, match="A person has answered"):
        await branch(core, session, receipt.message)
    placed = await open_session(core, address="slack:T1:C1")
    receipt = await say_and_wait(core, placed, "one")
    with pytest.raises(Conflict, match="another place"):
        await branch(core, placed, receipt.message)


async def test_a_copy_counts_as_a_session(make_core: MakeCore, provider: ScriptedProvider):
    """Beyond the sessions that a visitor may open in a day there is no copy either, and nothing is closed."""
    visitor = Actor("ada", "visitor")
    core = await make_core(provider, definition={"limits": Limits(visitor=VisitorQuota(sessions_per_day=2))})
    session = await open_session(core, actor=visitor)
    receipt = await say_and_wait(core, session, "one", actor=visitor)
    copy = await branch(core, session, receipt.message, visitor)
    receipt = await say_and_wait(core, copy.id, "two", actor=visitor)
    with pytest.raises(RateLimited):
        await branch(core, copy.id, receipt.message, visitor)
    assert (await core.session(copy.id)).status == "idle"


@pytest.mark.parametrize("quota", [VisitorQuota(messages_per_minute=2), VisitorQuota(messages_per_day=2)])
async def test_there_is_no_copy_in_which_no_message_is_allowed(
    make_core: MakeCore, provider: ScriptedProvider, quota: VisitorQuota
):
    """Else the message would be refused after its conversation was closed; a copy itself counts as no message."""
    visitor = Actor("ada", "visitor")
    core = await make_core(provider, definition={"limits": Limits(visitor=quota)})
    session = await open_session(core, actor=visitor)
    receipt = await say_and_wait(core, session, "one", actor=visitor)
    copy = await branch(core, session, receipt.message, visitor)
    receipt = await say_and_wait(core, copy.id, "two", actor=visitor)
    with pytest.raises(RateLimited, match="sent 2 messages"):
        await branch(core, copy.id, receipt.message, visitor)
    assert (await core.session(copy.id)).status == "idle"
    assert await own(core, actor=visitor) == [copy.id]


async def test_what_was_allowed_for_the_conversation_is_allowed_in_the_copy(make_core: MakeCore):
    """A tool that was allowed before the message needs no second yes; one that was allowed after it does."""
    till = Till()
    provider = ScriptedProvider(by_step((call("pay", amount=5),), (say("Paid."),)))
    core = await make_core(provider, tools=till.tools(), definition={"hooks": (asks(remember=True),)})
    stage = Stage(core, provider, await open_session(core))
    first = await send(core, stage.session, "Go")
    await stage.done(first.run)
    (asked,) = await open_approvals(stage)
    await core.approvals.decide(yes(asked.id, remember=True))
    await idle(core, stage.session)
    again = await say_and_wait(core, stage.session, "Again")
    copy = Stage(core, provider, (await branch(core, stage.session, again.message)).id)
    assert (await copy.play("Once more")).status == "completed"
    assert [body.ruling for body in await copy.said(HookRuled)] == ["hold", "allow"]

    other = Stage(core, provider, await open_session(core))
    first = await send(core, other.session, "Go")
    await other.done(first.run)
    (asked,) = await open_approvals(other)
    await core.approvals.decide(yes(asked.id, remember=True))
    await idle(core, other.session)
    fresh = Stage(core, provider, (await branch(core, other.session, first.message)).id)
    assert (await fresh.play("Go")).status == "waiting"


async def test_a_conversation_is_deleted_with_what_it_goes_on_from(core: Core):
    """Nothing of earlier copies stays, and other conversations stay as they are."""
    kept, session = await open_session(core), await open_session(core)
    names = [session]
    for text in ("one", "two", "three"):
        receipt = await say_and_wait(core, names[-1], text)
        names.append((await branch(core, names[-1], receipt.message)).id)
    await core.conversations.remove(names[-1], by=ANN)
    assert [each.id for each in (await core.sessions()).items] == [kept]
    with pytest.raises(NotFound):
        await core.conversations.remove(names[-1], by=ANN)


async def test_a_run_at_work_is_stopped_for_a_deletion(make_core: MakeCore):
    """A conversation that is being answered goes too, with what is queued in it."""
    gate = asyncio.Event()
    core = await make_core(ScriptedProvider(lambda _: (say("Hi."), pause(gate))))
    session = await open_session(core)
    for text in ("one", "two"):
        await send(core, session, text)
    await core.conversations.remove(session, by=ANN)
    with pytest.raises(NotFound):
        await core.session(session)


async def test_the_list_says_how_each_begins_and_where_its_newest_answer_is(core: Core):
    """A title that was given comes first, else the beginning of what was said; without an answer the seq is 0."""
    empty, talk = await open_session(core), await open_session(core)
    await say_and_wait(core, talk, "Where  is\nmy order?")
    found = {each.id: each for each in (await core.conversations.find(Wanted(actor=ANN.id, own=True))).items}
    assert found[talk].title == "Where is my order?"
    answer = next(fact.seq for fact in await log_of(core, talk) if fact.type == "message.completed")
    assert (found[talk].newest_seq, found[empty].newest_seq, found[empty].title) == (answer, 0, None)
    renamed = await core.conversations.rename(talk, "My order")
    assert (renamed.title, renamed.newest_seq) == ("My order", answer)


async def test_a_person_looks_among_their_own(core: Core, monkeypatch: pytest.MonkeyPatch):
    """Words are looked for in titles and in what was said; not in names and ids, nor in what others have."""
    mine, theirs, titled = await open_session(core), await open_session(core, actor=BOB), await open_session(core)
    await say_and_wait(core, mine, "a kettle")
    await say_and_wait(core, theirs, "a kettle", actor=BOB)
    await core.rename_session(titled, "Kettles")
    await core.replies.give(mine, "Hello.", by=OPERATOR)
    assert set(await own(core, "KETTLE")) == {mine, titled}
    for names in ("ann", "olga", "operator:1", mine[:12]):
        assert await own(core, names) == [], names
    monkeypatch.setattr(services, "MAX_OWN", 1)
    assert len(await own(core, "kettle")) <= 1
