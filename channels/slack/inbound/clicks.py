"""What people do with a card: approve, deny, correct. Others, and late ones, get an ephemeral notice."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from agent_core import (
    AlreadyDecided,
    ApprovalObject,
    Decider,
    Decision,
    InvalidInput,
    NotAnApprover,
    NotFound,
    ParleyError,
    may_respond,
)
from channels.slack.cards import forms
from channels.slack.cards import words as w
from channels.slack.cards.forms import ALWAYS, APPROVE, CHOICES, DENY, EDIT, CardAt
from channels.slack.cards.words import Json, text
from channels.slack.inbound.groups import Belonging, Groups
from channels.slack.inbound.intake import Filled, Pressed
from channels.slack.inbound.mentions import Mentions, actor, refusal
from channels.slack.settings import Slack, settings_of
from channels.slack.web_api import failures as f
from channels.slack.web_api.pace import Lane
from channels.slack.web_api.workspaces import Installation

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
                await space.pacer.admit("views.open", space.team, None, Lane.LIFECYCLE)
                await space.api.views_open(pressed.trigger, view)
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
