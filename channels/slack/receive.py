"""What people do in Slack is taken in: messages, commands, shortcuts, and what they press and fill in on cards."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Protocol

import structlog

from agent_core.channels import Context, Inbound
from agent_core.clock import Clock
from agent_core.core import Core
from agent_core.errors import (
    AlreadyDecided,
    InvalidInput,
    NotAnApprover,
    NotFound,
    ParleyError,
    RateLimited,
    SessionClosed,
)
from agent_core.messages import Actor, Text, shorten
from agent_core.objects import (
    AgentObject,
    ApprovalObject,
    Decider,
    Decision,
    PendingCall,
    Receipt,
    RunObject,
    SessionObject,
    may_respond,
)
from agent_core.traces import trace_of
from channels.slack import api as f
from channels.slack import forms, limits
from channels.slack import forms as w
from channels.slack import intake as i
from channels.slack.context import (
    CLOSED,
    NO_AGENT,
    TIMEOUT,
    Belonging,
    Groups,
    Look,
    Mentions,
    Shows,
    Watermark,
    actor,
    after,
    as_context,
    asked_by,
    at,
    attached,
    carried,
    own_name,
    refusal,
    tool_context,
)
from channels.slack.forms import ALWAYS, APPROVE, CHOICES, DENY, EDIT, CardAt, Json, Sentence, text
from channels.slack.intake import SEEN, Commanded, Filled, Pointed, Pressed, as_note, words
from channels.slack.outbox import QUESTION, SKEW, mark, marked
from channels.slack.pace import POST, Installation, Workspace
from channels.slack.people import Conversations, Lately, People, Person
from channels.slack.settings import Slack, Thread, settings_of
from channels.slack.text import escape, neutral
from channels.text import unmistakable

WAITS = ("waiting", "requires_action")
QUEUED = "Your message is queued; I answer it when this conversation continues. It waits for "


async def say_queued(core: Core, installation: Installation, thread: Thread, receipt: Receipt) -> None:
    """Post the sentence, if the message of *receipt* is still queued after a run that waits.

    The caller posts for a receipt that is not repeated, so at most once for a message, whatever Slack sends again.
    Raises a `SlackFailure`.
    """
    run = await _waiting(core, receipt)
    if run is None:
        return
    space, words = installation.space, w.mrkdwn(await _sentence(core, run, installation.me.team))
    # With a mark of its own it is not mistaken for a part of an answer.
    named = mark(f"queued:{receipt.message}")
    await space.call(POST, thread.channel, space.api.post, thread.channel, words, thread_ts=thread.root, metadata=named)


async def _waiting(core: Core, receipt: Receipt) -> RunObject | None:
    """Return the run that waits in the session while the run of *receipt* is queued."""
    if (await core.run(receipt.run)).status != "queued":
        return None
    runs = (await core.runs(session=receipt.session, limit=100)).items
    return next((run for run in runs if run.status in WAITS and run.parent_run is None), None)


async def _sentence(core: Core, run: RunObject, team: str) -> Sentence:
    named = [await _awaited(core, call, team) for call in run.pending] or [[text("another run")]]
    return [text(QUEUED), *w.joined(named, "; and for "), text(".")]


async def _awaited(core: Core, call: PendingCall, team: str) -> Sentence:
    tool = text(unmistakable(call.tool))
    if call.on == "client":
        return [text("the result of "), tool, text(", which a client executes")]
    if call.approval is None:
        return [text("another run, for "), tool]
    approval: Sentence = [text("an approval of "), tool]
    try:
        waiting_for = await core.approvals.get(call.approval)
    except NotFound:  # its session was deleted just now
        return approval
    return [*approval, text(" by "), *w.responders(waiting_for, team)]


POSTING = 1.0
"""Seconds beyond those for names in which the question of a slash command must be posted: Slack waits for three."""
ABSENT = "I am not in this channel. Invite me, and ask again."
NOT_POSTED = "Slack does not let me post your question here just now. Try again in a moment."
UNSURE = (
    "It is not certain yet that I have your question. If it is here I answer it in its thread; if not, I let you know "
    "so within a minute."
)
MAYBE = "I could not find out whether your question was posted. If it was, mention me in its thread; else ask again."
LOOKS = (1.0, 5.0, 20.0)
"""Seconds before each look for a question that may or may not have been posted."""
HELP = frozenset({"", "help", "?"})
"""What is no question, and gets the help."""
_HELP = """{who}
• `{command} your question`: your question is posted here for all to see, and answered in its thread.
• Mention me, {me}, in a message or in a thread: I read the thread and answer there.{follow_up}
• Write me a direct message: no one else in Slack reads it.
• “Ask about this”, among a message's actions: I look at that message and answer below it.
• Stop, above the answer, ends what I do. Edit or delete what you wrote, and I take it so.
• `{command} help`: this, which only you see."""
_ANSWERS = "In <#{channel}> the agent `{agent}` answers."
_FOLLOW_UP = " Once I am in a thread your replies need no mention."

Begin = Callable[[Coroutine[Any, Any, None]], None]


@dataclass(frozen=True, slots=True)
class _Question:
    """What *person* asked by *command*, as *text*; it is posted from *since* (ms) on and answered in *thread*."""

    command: Commanded
    thread: Thread
    text: str
    by: Actor
    person: Person
    since: int

    @property
    def name(self) -> str:
        """What its post is known by; others may read it, so it is not the trigger itself."""
        return f"{QUESTION}{sha256(self.command.trigger.encode()).hexdigest()[:32]}"


async def commanded(
    asking: Mentions, installation: Installation, command: Commanded, clock: Clock, begin: Begin
) -> str | None:
    """Post the question in the channel and answer it in its thread; return the notice for the asker alone.

    *begin* starts what continues after the notice.
    """
    until, me = asking.until(), installation.me
    where = Thread(
        me.team, command.channel, "", command.user, me.team, me.enterprise, is_dm=command.channel.startswith("D")
    )
    question = words(command.text, me, await asking.names(installation, command.text, until))
    agent = await asking.agent(None, where)
    if question.strip().lower() in HELP:
        return _help(command, installation, agent)
    if agent is None:
        return NO_AGENT.format(channel=command.channel)
    settings = settings_of(agent.definition)
    person = await asking.who(installation, command.user, settings, until)
    notice = refusal(person, settings) or await asking.place(installation, command.channel, settings, until)
    if notice is not None:
        return notice
    thread, by = asked_by(where, person, agent, question), actor(installation, person.id, person.name)
    put = _Question(command, thread, question, by, person, clock.now())
    try:
        async with asyncio.timeout_at(until + POSTING):
            root = await _post(installation, put)
        await _answer(asking, put, root)
    except f.TargetMissing:
        return ABSENT
    except (f.Limited, f.NotSent, f.SlackRefused, f.Unauthorised) as error:
        asking.notes.failure(error)
        return NOT_POSTED
    except RateLimited as error:
        return str(error)
    except (ParleyError, TimeoutError) as error:  # it may have been posted, and if so it is to be answered
        asking.notes.failure(error)
        begin(_looked_for(asking, installation, put, clock))
        return UNSURE
    return None


def _help(command: Commanded, installation: Installation, agent: AgentObject | None) -> str:
    """Return what people can do here, in mrkdwn."""
    who, follow_up = NO_AGENT.format(channel=f"<#{command.channel}>"), False
    if agent is not None:
        who = _ANSWERS.format(channel=command.channel, agent=escape(neutral(agent.definition.name)))
        follow_up = settings_of(agent.definition).follow_up
    more = _FOLLOW_UP if follow_up else ""
    return _HELP.format(
        who=who, command=escape(neutral(command.command)), me=f"<@{installation.me.user}>", follow_up=more
    )


async def _answer(asking: Mentions, put: _Question, root: str) -> None:
    """Have the question answered in the thread of its post at *root*."""
    thread = replace(put.thread, root=root)
    inbound = Inbound(
        parts=(Text(put.text),),
        actor=put.by,
        key=f"command:{put.command.trigger}",
        metadata=Watermark(root).metadata,
        tool_context=tool_context(thread, put.person),
        timezone=put.person.timezone,
    )
    await asking.ask(thread, None, inbound)


async def pointed(asking: Mentions, installation: Installation, pointer: Pointed, begin: Begin) -> str | None:
    """Ask an agent about a message, in its thread; return what only the asker reads. *begin* runs what follows."""
    until, thread = asking.until(), pointer.thread
    agent = await asking.agent(await asking.core.find_session(thread.address), thread)
    if agent is None:
        return NO_AGENT.format(channel=thread.channel)
    settings = settings_of(agent.definition)
    person = await asking.who(installation, thread.user, settings, until)
    notice = refusal(person, settings) or await asking.place(installation, thread.channel, settings, until)
    if notice is not None:
        return notice
    async with asking.order(thread, until):
        session = await asking.core.find_session(thread.address)
        mark = Watermark.of(session.metadata if session else {})
        try:
            look = await asking.look(installation, thread, mark.passed(pointer.ts), before=None, until=until)
        except f.TargetMissing:
            return ABSENT
        context = await as_context(installation, asking.people, (pointer.message,), until=until)
        newest = max((ts for ts in (pointer.ts, look.newest if look else None) if ts), key=at)
        note = Context(text="The message that is asked about:", source="note")
        inbound = Inbound(
            parts=(Text("Help with this message."),),
            actor=actor(installation, person.id, person.name),
            key=f"shortcut:{pointer.trigger}",
            context=(*(look.context if look else ()), note, *context),
            metadata=(mark.moved(newest) if look else mark.passed(pointer.ts)).metadata,
            tool_context=tool_context(thread, person),
            timezone=person.timezone,
        )
        try:
            receipt = await asking.ask(asked_by(thread, person, agent, context[0].text), session, inbound)
        except SessionClosed:
            return CLOSED
        except RateLimited as error:
            return str(error)
    if session is not None and session.status in WAITS and not receipt.repeated:
        begin(say_queued(asking.core, installation, thread, receipt))
    return None


async def _post(installation: Installation, put: _Question) -> str:
    """Post the question of a command, and return the root of the thread in which it is answered."""
    space, command, question = installation.space, put.command, shorten(put.text, limits.TEXT - 100)
    text = f"<@{command.user}>: {escape(neutral(question))}"
    return await space.call(POST, command.channel, space.api.post, command.channel, text, metadata=mark(put.name))


async def _looked_for(asking: Mentions, installation: Installation, put: _Question, clock: Clock) -> None:
    """Find out whether a question was posted, and answer it, or notify the asker that it was not."""
    notice, space, command = MAYBE, installation.space, put.command
    for pause in LOOKS:
        await clock.sleep(pause)
        try:
            if (root := await _find_post(installation, put)) is not None:
                await _answer(asking, put, root)
                return
            notice = NOT_POSTED
        except ParleyError as error:
            notice = MAYBE
            asking.notes.failure(error)
    await _notify_alone(space, command.channel, command.user, notice)


async def _find_post(installation: Installation, put: _Question) -> str | None:
    """Return the `ts` of the question's post among the newest messages of the channel; raises a `SlackFailure`."""
    space, channel, oldest = installation.space, put.command.channel, f"{put.since // 1000 - SKEW}.000000"
    page = await space.call("conversations.history", channel, space.api.history, channel, oldest=oldest)
    ours = [
        each["ts"] for each in page.messages if each.get("user") == installation.me.user and marked(each) == put.name
    ]
    return ours[-1] if ours else None


SURFACE = "slack"
GONE = "This question is not there any more."
LATE = "Too late: "
NOT_YOURS = "This is not yours to decide. It is for: "
NOT_SURE = "Slack cannot say just now whether this is yours to decide. Try again in a moment."
AGAIN = "That cannot be done just now. Try again in a moment."
NO_FORM = "That took too long, so no form could be opened. Press the button again."
NOTHING_TO_EDIT = "Nothing of this call can be changed any more; approve or deny it as it is."
OPENING = 1.0
"""Seconds for a form beyond those for who it is that asks for one: Slack takes it for three after the click."""
_log = structlog.get_logger("parley.slack")


class CardDisplay(Protocol):
    """Knows the cards, and shows them."""

    async def is_shown(self, approval: str, team: str, channel: str) -> bool:
        """Return whether an approval is asked in *channel* of *team*."""
        ...

    async def heal(self, approval: str, team: str, channel: str, ts: str) -> None:
        """Have the message that was pressed on too late say what became of its question."""
        ...


@dataclass(frozen=True, slots=True)
class Clicks:
    """Does what people do with cards; *beside* does what need not be awaited."""

    asking: Mentions
    groups: Groups
    cards: CardDisplay
    beside: Callable[[Coroutine[Any, Any, None]], None]

    async def pressed(self, installation: Installation, pressed: Pressed) -> str | None:
        """Take a press on a button; return what only that person reads, if there is something to say."""
        until, card = self.asking.until(), pressed.card
        approval = await self._approval(card.approval)
        if approval is None:
            return GONE
        if approval.status != "open":
            return self._late(installation, card, approval)
        by = await self._decider(installation, pressed.user, card, approval, until)
        if isinstance(by, str):
            return by
        answer = dict(zip(CHOICES, forms.buttons_of(approval), strict=False)).get(pressed.what)
        # What a tool asks itself is never answered unseen: an older card has a yes to it.
        opens = pressed.what in (EDIT, DENY) or (approval.form is not None and answer is None)
        if opens and may_respond(approval.responders, approval.asker, by, approval.speakers):
            return await self._open(installation, pressed, approval, until)
        # Who may not is refused by the core, which keeps account of it.
        yes = pressed.what in (APPROVE, ALWAYS) or answer is not None
        given = answer and answer[0]
        vote = _vote(approval.id, by, approved=yes, remember=pressed.what == ALWAYS, arguments=given)
        try:
            return await self._decide(installation, card, vote)
        except InvalidInput as error:
            return error.message

    async def filled(self, installation: Installation, filled: Filled) -> Json | None:
        """Take a form that was sent off; return what Slack is to do with it, if it is not to close.

        What cannot be done just now leaves it open, with all that was written into it.
        """
        try:
            return await self._filled(installation, filled)
        except ParleyError as error:
            _log.warning("slack.not_taken", error=str(error))
            return _faulty(next(iter(filled.values), None), AGAIN)

    async def _filled(self, installation: Installation, filled: Filled) -> Json | None:
        until, card = self.asking.until(), filled.card
        approval = await self._approval(card.approval)
        if approval is None:
            return _notice(GONE)
        if approval.status != "open":
            return _notice(self._late(installation, card, approval))
        by = await self._decider(installation, filled.user, card, approval, until)
        if isinstance(by, str):
            return _notice(by)
        if filled.what == DENY:
            reason = (filled.values.get(forms.REASON) or "").strip() or None
            words = await self._decide(installation, card, _vote(approval.id, by, approved=False, reason=reason))
            return None if words is None else _notice(words)
        return await self._edited(installation, filled, approval, by)

    async def _edited(
        self, installation: Installation, filled: Filled, approval: ApprovalObject, by: Decider
    ) -> Json | None:
        """Approve a call as it was corrected; what does not fit is said at its field, and then nothing is decided."""
        fields = forms.fields(approval, await self._schema(approval))
        arguments, errors = forms.read(fields, filled.values, approval.arguments)
        if errors:
            return _marked(errors)
        corrected = None if arguments == approval.arguments else arguments
        try:
            words = await self._decide(
                installation, filled.card, _vote(approval.id, by, approved=True, arguments=corrected)
            )
        except InvalidInput as error:
            return _marked(forms.marked(fields, error.faults)) if fields else _notice(error.message)
        return None if words is None else _notice(words)

    async def _decide(self, installation: Installation, card: CardAt, vote: Decision) -> str | None:
        try:
            await self.asking.core.approvals.decide(vote)
        except NotFound:
            return GONE
        except AlreadyDecided:
            return self._late(installation, card, await self.asking.core.approvals.get(vote.approval))
        except NotAnApprover:
            approval = await self.asking.core.approvals.get(vote.approval)
            return f"{NOT_YOURS}{w.mrkdwn(w.responders(approval, installation.me.team))}."
        return None

    async def _open(
        self, installation: Installation, pressed: Pressed, approval: ApprovalObject, until: float
    ) -> str | None:
        """Open the form of a button."""
        view = forms.denying(approval, pressed.card)
        if pressed.what != DENY:
            if not approval.edit:
                return NOTHING_TO_EDIT
            view = forms.editing(approval, await self._schema(approval), pressed.card)
        space = installation.space
        try:
            async with asyncio.timeout_at(until + OPENING):
                await space.call("views.open", None, space.api.views_open, pressed.trigger, view)
        except (f.SlackFailure, TimeoutError) as error:
            self.asking.notes.failure(error)
            return NO_FORM
        return None

    async def _decider(
        self, installation: Installation, user: str, card: CardAt, approval: ApprovalObject, until: float
    ) -> Decider | str:
        """Return who *user* is to the policy of a question, or the notice for them instead; raises `NotNow`.

        A card counts only where its question is asked: there, who sees it is present and known by name and groups.
        """
        slack = Slack()
        with suppress(NotFound):
            slack = settings_of((await self.asking.core.agents.get(approval.agent)).definition)
        person = await self.asking.who(installation, user, slack, until)
        if (words := refusal(person, slack)) is not None:
            return words
        who = actor(installation, user, person.name)
        if not await self.cards.is_shown(approval.id, installation.me.team, card.channel):
            return Decider(actor=who)
        groups = [name.removeprefix("slack:") for name in approval.responders if name.startswith("slack:S")]
        belonging = await self.groups.of(installation, user, groups, until=until) if groups else Belonging(())
        also = (f"slack:{user}", *(f"slack:{group}" for group in belonging.of))
        by = Decider(actor=who, is_present=True, also=also)
        if not belonging.sure and not may_respond(approval.responders, approval.asker, by, approval.speakers):
            return NOT_SURE
        return by

    async def _schema(self, approval: ApprovalObject) -> Json:
        tool = await self.asking.core.approvals.tool(approval.id)
        return tool.parameters if tool is not None else {}

    async def _approval(self, approval: str) -> ApprovalObject | None:
        try:
            return await self.asking.core.approvals.get(approval)
        except NotFound:
            return None

    def _late(self, installation: Installation, card: CardAt, approval: ApprovalObject) -> str:
        """Have a card that still has its buttons say what became of its question; return the same for who pressed."""
        self.beside(self.cards.heal(approval.id, installation.me.team, card.channel, card.ts))
        reason = [text(f" “{approval.reason}”")] if approval.reason else []
        return f"{LATE}{w.mrkdwn([*w.outcome(approval, installation.me.team), *reason])}"


def _vote(approval: str, by: Decider, *, approved: bool, **more: Any) -> Decision:
    return Decision(approval=approval, by=by, approved=approved, surface=SURFACE, **more)


def _notice(words: str) -> Json:
    """Return what makes Slack show *words* in the place of a form."""
    return {"response_action": "update", "view": forms.notice(words)}


def _faulty(block: str | None, words: str) -> Json:
    """Return what makes Slack show *words* at a field of a form, which stays as it is."""
    return _notice(words) if block is None else _marked({block: words[: forms.MAX_FAULT]})


def _marked(words: dict[str, str]) -> Json:
    """Return what makes Slack show *words* at the fields of a form, each by its block."""
    return {"response_action": "errors", "errors": words}


DAY = 24 * 3_600_000
LATEST_EDIT = limits.EVENT_RETRY_2 + limits.EVENT_RETRY_3
"""Seconds by which a message may come after its own edit: Slack sends again what it could not deliver."""
IN_TIME = 2_000
"""Milliseconds after which a message comes late: replies to it may have come before it, or its deletion."""
PAUSES = (2.0, 10.0, 60.0)
"""Seconds between two tries to read a thread for what came too early."""
OPEN = ("queued", "running", "waiting", "requires_action")
_EDITED = Context(text="A message of this thread that was quoted before was edited. Now it says:", source="note")


class Receiver:
    """Takes in what people do in Slack."""

    def __init__(
        self, core: Core, shows: Shows, people: People, clock: Clock, cards: CardDisplay, *, timeout: float = TIMEOUT
    ) -> None:
        self._core, self._shows, self._people = core, shows, people
        self._mentions = Mentions(core, shows, people, Conversations(clock), timeout=timeout)
        self._clicks = Clicks(self._mentions, Groups(clock, self._mentions.notes), cards, self._begin)
        self._clock, self._lately = clock, Lately[tuple[str, ...], bool](clock, DAY)
        self._renames = Lately[str, tuple[int, int]](clock, DAY)
        self._beside: set[asyncio.Task[None]] = set()

    async def take(self, installation: Installation, item: i.Asked) -> str | f.Json | None:
        """Carry out *item*, and return what only the person who asked reads, or what becomes of their form.

        Raises a `ParleyError` when nothing was kept and the same may come again.
        """
        match item:
            case i.MessagePosted():
                await self._on_message(installation, item)
            case i.Edited():
                await self._edited(installation, item)
            case i.Unfurled():
                await self._unfurled(installation, item.posted)
            case i.Deleted():
                await self._deleted(installation, item)
            case i.StopPressed():
                await self._stopped(installation, item)
            case i.Renamed():
                await self._renamed(item)
            case i.Voted():
                with suppress(NotFound):
                    by = self._actor(installation, item.user)
                    await self._core.feedback(item.run, by=by, rating="up" if item.good else "down")
            case i.Opened():
                self._begin(self._mentions.home(installation, item.user, item.channel))
            case i.Unknown():
                self.note("slack.unknown", kind=item.kind)
            case _:
                return await self._answered(installation, item)
        return None

    async def is_new(self, payload: f.Json) -> bool:
        """Return whether *payload* is to be taken: what people do in Slack counts once, however often it is sent.

        Events may come again; each is known by what it is about.
        """
        if payload.get("type") == "event_callback":
            return True
        whole = json.dumps(payload, sort_keys=True).encode()
        return await self._core.is_first(f"slack:{sha256(whole).hexdigest()[:32]}")

    async def _answered(
        self, installation: Installation, item: i.Commanded | i.Pointed | i.Pressed | i.Filled
    ) -> str | f.Json | None:
        """Do what a person asked for who can be answered at once."""
        match item:
            case i.Commanded():
                return await commanded(self._mentions, installation, item, self._clock, self._begin)
            case i.Pointed():
                return await pointed(self._mentions, installation, item, self._begin)
            case i.Pressed():
                return await self._clicks.pressed(installation, item)
            case i.Filled():
                return await self._clicks.filled(installation, item)

    def note(self, event: str, **more: str) -> None:
        """Log *event* unless it was logged before."""
        self._mentions.notes.once(event, **more)

    async def close(self) -> None:
        """Give up what is under way beside the answers."""
        for task in self._beside:
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)
        await self._people.close()

    async def _on_message(self, installation: Installation, posted: i.MessagePosted) -> None:
        """Have a message answered if it is to an agent: by name, in a direct message, or in a thread it is in."""
        thread, until = posted.thread, self._mentions.until()
        is_deleted = self._lately.get(("deleted", thread.address, posted.ts))
        if (not posted.addressed and thread.root == posted.ts) or is_deleted:
            return
        session = await self._core.find_session(thread.address)
        if session is None and not posted.addressed:
            return
        agent = await self._mentions.agent(session, thread)
        if agent is None:
            self._reply_privately(installation, posted, NO_AGENT.format(channel=thread.channel), scope=thread.channel)
            return
        if not (posted.addressed or settings_of(agent.definition).follow_up):
            return
        person = await self._mentions.who(installation, thread.user, settings_of(agent.definition), until)
        if person.kind == "bot":
            return
        self._mentions.conversations.note(thread.team, thread.channel, shared=posted.shared)
        if (words := refusal(person, settings_of(agent.definition), shared=posted.shared)) is not None:
            self._reply_privately(installation, posted, words, scope="")
            return
        late = self._clock.now() - at(posted.ts)[0] * 1000 > IN_TIME
        if late and await self._mentions.is_gone(installation, thread, posted.ts, until):
            return  # its deletion came before it, perhaps to another process
        async with self._mentions.order(thread, until):
            # Looked for again: the same message may have come twice at once.
            session = await self._core.find_session(thread.address)
            try:
                await self._take_in(installation, posted, session, agent, person, until)
            except SessionClosed:
                self._reply_privately(installation, posted, CLOSED, scope=thread.address)
                self._begin(_show_closed(installation.space, thread))
            except RateLimited as error:
                if not error.is_quota:
                    raise  # Slack sends it again
                self._refuse(installation, posted, error)
        if session is None and late and not thread.is_dm:
            self._begin(self._catch_up(installation, posted))

    async def _catch_up(self, installation: Installation, posted: i.MessagePosted) -> None:
        """Take in the replies that came before the late message which they reply to, and were therefore skipped."""
        for message in await self._after(installation, posted):
            event = {**message, "type": "message", "channel": posted.thread.channel}
            payload = {"type": "event_callback", "event": event, "is_ext_shared_channel": posted.shared}
            match i.read(payload, installation.me):
                case i.MessagePosted() as reply:
                    await self._on_message(installation, reply)
                case _:
                    continue

    async def _after(self, installation: Installation, posted: i.MessagePosted) -> list[f.Json]:
        for pause in PAUSES:
            try:
                return await after(installation, posted.thread, posted.ts)
            except (f.Uncertain, f.NotSent, f.Limited):
                await self._clock.sleep(pause)
        return await after(installation, posted.thread, posted.ts)

    async def _take_in(
        self,
        installation: Installation,
        posted: i.MessagePosted,
        session: SessionObject | None,
        agent: AgentObject,
        person: Person,
        until: float,
    ) -> None:
        metadata: f.Json = session.metadata if session else {}
        mark = Watermark.of(metadata)
        look = await self._look(installation, posted, mark, until)
        words = await self._words(installation, posted, agent, until)
        beside = await carried(installation, self._people, posted.message, until=until)
        mark = mark.passed(posted.ts) if look is None else mark.moved(posted.ts)
        viewing = {SEEN: "; ".join(posted.viewing)} if posted.viewing else {}
        inbound = Inbound(
            parts=(Text(words),),
            actor=actor(installation, person.id, person.name),
            key=_key(posted.ts),
            context=(*(look.context if look else ()), *attached((*beside, *as_note(posted.viewing, metadata)))),
            metadata={**mark.metadata, **viewing},
            tool_context=tool_context(posted.thread, person),
            timezone=person.timezone,
        )
        receipt = await self._mentions.ask(asked_by(posted.thread, person, agent, words), session, inbound)
        if session is not None and not receipt.repeated:  # it may have begun to wait during the look-ups
            self._begin(say_queued(self._core, installation, posted.thread, receipt))

    async def _look(
        self, installation: Installation, posted: i.MessagePosted, mark: Watermark, until: float
    ) -> Look | None:
        """Return what was said before; of a direct message all that came later was said to us."""
        thread: Thread = posted.thread
        if thread.root == posted.ts or mark.covers(posted.ts) or (thread.is_dm and mark.seen is not None):
            return Look((), posted.ts)
        try:
            return await self._mentions.look(installation, thread, mark, before=posted.ts, until=until)
        except f.TargetMissing as error:
            self._mentions.notes.failure(error)
            return None

    async def _words(
        self, installation: Installation, posted: i.MessagePosted, agent: AgentObject | None, until: float
    ) -> str:
        names = await self._mentions.names(installation, posted.text, until)
        return i.words(posted.text, installation.me, {**names, **own_name(installation, agent)}) or "(no words)"

    async def _edited(self, installation: Installation, edited: i.Edited) -> None:
        posted = edited.posted
        session = await self._core.find_session(posted.thread.address)
        mark = Watermark.of(session.metadata if session else {})
        if session is not None:
            agent = await self._mentions.agent(session, posted.thread)
            parts = (Text(await self._words(installation, posted, agent, self._mentions.until())),)
            with suppress(NotFound):
                seconds, micros = at(edited.at)
                order, key = seconds * 1_000_000 + micros, f"edit:{posted.ts}:{edited.at}"
                await self._core.correct(session.id, _key(posted.ts), parts, key=key, order=order)
                return
            if mark.covers(posted.ts) and not posted.thread.is_dm:
                await self._quote_again(installation, session, edited)
                return
        # An edit may come before its message, which is then answered in its edited form; the other is a repetition.
        late = at(edited.at)[0] - at(posted.ts)[0] <= LATEST_EDIT and at(posted.ts) > mark.newest
        if late and (posted.addressed or session is not None):
            await self._on_message(installation, posted)

    async def _quote_again(self, installation: Installation, session: SessionObject, edited: i.Edited) -> None:
        """Quote a message of others again, whose text changed after it was quoted."""
        posted = edited.posted
        notice = await as_context(installation, self._people, (posted.message,), until=self._mentions.until())
        with suppress(SessionClosed):
            await self._core.add_context(session.id, (_EDITED, *notice), key=f"edit:{posted.ts}:{edited.at}")

    async def _unfurled(self, installation: Installation, posted: i.MessagePosted) -> None:
        """Quote the messages that Slack shows below one that the agent has, and links to them."""
        session = await self._core.find_session(posted.thread.address)
        if session is None or not Watermark.of(session.metadata).knows(posted.ts):
            return
        context = await carried(installation, self._people, posted.message, until=self._mentions.until())
        note = Context(text="A message of this thread links to what is quoted here:", source="note")
        if context:
            with suppress(SessionClosed):
                await self._core.add_context(session.id, (note, *context[1:]), key=f"unfurl:{posted.ts}")

    async def _deleted(self, installation: Installation, deleted: i.Deleted) -> None:
        session = await self._core.find_session(deleted.thread.address)
        if session is not None:
            by = self._actor(installation, deleted.thread.user)
            with suppress(NotFound):
                await self._core.retract(session.id, _key(deleted.ts), by=by, key=f"delete:{deleted.ts}")
                return
        # It was not said to the agent, or it will come after its own deletion.
        self._is_first("deleted", deleted.thread.address, deleted.ts)

    async def _stopped(self, installation: Installation, stopped: i.StopPressed) -> None:
        session = await self._core.find_session(stopped.thread.address)
        if session is None:
            return
        by, reason = self._actor(installation, stopped.thread.user), "stopped in Slack"
        if Watermark.of(session.metadata).newest <= at(stopped.at):
            await self._core.stop_session(session.id, by=by, reason=reason)
        else:  # it comes late, or again: what was asked for since continues
            for run in await self._open_runs(session.id):
                if run.created_at // 1000 <= at(stopped.at)[0]:
                    await self._core.cancel(run.id, by=by, reason=reason)
        self._shows.show(session.id)  # so that no status is left over

    async def _open_runs(self, session: str) -> list[RunObject]:
        """Return the session's open root runs, the newest first."""
        runs = (await self._core.runs(session=session, limit=100)).items
        return [run for run in runs if run.status in OPEN and run.parent_run is None]

    async def _renamed(self, renamed: i.Renamed) -> None:
        address, when = renamed.thread.address, at(renamed.at)
        session = await self._core.find_session(address)
        if session is None or (self._renames.get(address) or when) > when:
            return
        self._renames.note(address, when)
        await self._core.rename_session(session.id, renamed.title)

    def _actor(self, installation: Installation, user: str) -> Actor:
        person = self._people.cached(installation, user)
        return actor(installation, user, person.name if person else None)

    def _reply_privately(self, installation: Installation, posted: i.MessagePosted, words: str, *, scope: str) -> None:
        """Notify the author of *posted* alone, if it was to us, and once a day and *scope*."""
        if posted.addressed and self._is_first(installation.me.team, posted.thread.user, scope, words):
            self._tell(installation, posted, words)

    def _refuse(self, installation: Installation, posted: i.MessagePosted, error: RateLimited) -> None:
        """Notify the author of *posted* alone why it is not answered; once a minute."""
        minute = str(self._clock.now() // 60_000)
        if self._is_first(installation.me.team, posted.thread.user, error.limit, minute):
            self._tell(installation, posted, str(error))

    def _is_first(self, *what: str) -> bool:
        """Return whether *what* happens for the first time in a day, and remember that it has."""
        if self._lately.get(what):
            return False
        self._lately.note(what, True)
        return True

    def _tell(self, installation: Installation, posted: i.MessagePosted, words: str) -> None:
        root = None if posted.thread.root == posted.ts else posted.thread.root
        self._begin(_notify_alone(installation.space, posted.thread.channel, posted.thread.user, words, root))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do *work* beside the answers; that it fails is worth a line and nothing more."""
        task = asyncio.create_task(_guarded(work))
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)


async def _guarded(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except ParleyError as error:
        _log.info("slack.notice_failed", error=str(error))
    except Exception as error:  # noqa: BLE001 - the boundary of a task
        _log.error("slack.failed", exception=trace_of(error))


async def _notify_alone(space: Workspace, channel: str, user: str, words: str, root: str | None = None) -> None:
    await space.call("chat.postEphemeral", channel, space.api.ephemeral, channel, user, words, thread_ts=root)


async def _show_closed(space: Workspace, thread: Thread) -> None:
    """Have Slack show that a conversation is over which an operator closed."""
    method = "agents.sessions.setStatus"
    await space.call(method, thread.channel, space.api.set_status, thread.channel, thread.root, "closed")


def _key(ts: str) -> str:
    """Return the key of the message at *ts*, which no other of its thread has: it is taken in once."""
    return f"slack:{ts}"
