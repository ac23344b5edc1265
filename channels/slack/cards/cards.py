"""Questions to people, shown in Slack where they are to be asked, until every card says what became of them.

The core reports open questions at once if they are asked in this process, and whenever they are looked for. What is
kept of a card is how far it got, never what it says: each pass over it reads the question again.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import structlog

from agent_core import (
    ApprovalDecided,
    ApprovalObject,
    Clock,
    Core,
    Fact,
    MessageCorrected,
    NotFound,
    ParleyError,
    Unavailable,
    trace_of,
)
from channels.ledger import LostPlace
from channels.slack.cards.blocks import CardContext, pages
from channels.slack.cards.rows import PLANNED, SENT, SETTLED, SHOWN, Card, CardRows, Spot
from channels.slack.cards.screen import CardScreen
from channels.slack.thread import Thread
from channels.slack.web_api import failures as f
from channels.slack.web_api.pace import Lane
from channels.slack.web_api.workspaces import Workspaces
from channels.sweep import PeriodicTask

SWEEP = 1.0
"""Seconds between two looks for what other processes asked and decided, or left half done."""
MAX_AT_ONCE = 20
"""Cards that one process works on at once."""
MAX_LINKS = 1_000
"""Addresses of threads that are remembered."""
SETTLE_MS = 5_000
"""Milliseconds for which a card waits in its thread for what the agent says before it."""
GIVEN_UP = 8
"""Failed edits that show an outcome before a card is left as it is; a click on it is answered with the outcome."""
SLOWEST = 60.0
_log = structlog.get_logger("parley.slack")


class Cards:
    """Shows questions in Slack; *resumed* is notified of each session whose question was decided here.

    *news* is set when there may be something to do. With a *public_url* a card about a conversation that is not in
    Slack links to the operators' page there.
    """

    def __init__(
        self,
        core: Core,
        rows: CardRows,
        workspaces: Workspaces,
        clock: Clock,
        *,
        news: asyncio.Event | None = None,
        resumed: Callable[[str], None] = lambda _: None,
        public_url: str | None = None,
    ) -> None:
        self._core, self._rows, self._workspaces, self._clock = core, rows, workspaces, clock
        self._resumed = resumed
        self._public_url = public_url
        self._planned: set[str] = set()
        self._corrected: set[str] = set()
        self._links: dict[str, str] = {}
        self._working: dict[int, asyncio.Task[None]] = {}
        self._sweep = PeriodicTask("cards", self._look, clock, SWEEP, news=news)

    async def start(self, *, alone: bool = False) -> None:
        """Resume what an earlier process left; one that is *alone* on the database waits for no lease."""
        if alone:
            await self._rows.vacate()
        self._core.approvals.listen(self._on_fact)
        self._sweep.start()

    async def stop(self) -> None:
        """Stop showing; another process, or the next start, continues where this one was."""
        await self._sweep.stop(self._working.values())
        with suppress(Unavailable):  # the leases end by themselves
            await self._rows.release()

    async def is_shown(self, approval: str, team: str, channel: str) -> bool:
        """Return whether an approval is asked in *channel* of *team*."""
        return await self._rows.is_shown(approval, team, channel)

    async def heal(self, approval: str, team: str, channel: str, ts: str) -> None:
        """Edit the message of a late click to show the outcome of its question; raises a `SlackFailure`."""
        space, question = await self._workspaces.space(team), await self._approval(approval)
        page = pages(question, await self._about(question, Spot(team, channel)))[-1]
        await space.pacer.admit("chat.update", team, channel, Lane.FINAL)
        await space.api.update(channel, ts, page.text, blocks=page.blocks)

    def _on_fact(self, fact: Fact) -> None:
        if isinstance(fact.body, ApprovalDecided):
            self._resumed(fact.session)
        if isinstance(fact.body, MessageCorrected):
            self._corrected.add(fact.session)
        self._sweep.news.set()

    async def _look(self) -> None:
        """Plan cards that are not planned yet, and work on those that are not up to date."""
        if corrected := frozenset(self._corrected):
            await self._rows.outdate(corrected)
            self._corrected -= corrected
        versions = await self._core.approvals.versions()
        self._planned &= versions.keys()
        for approval in versions.keys() - self._planned:
            await self._plan(approval)
        due = [
            each
            for each in await self._rows.unsettled()
            if each.key not in self._working
            and (each.state in (PLANNED, SENT) or each.version != versions.get(each.approval))
        ]
        room = max(0, MAX_AT_ONCE - len(self._working))
        for card in await self._rows.claim([each.key for each in due[:room]]) if due[:room] else []:
            task = asyncio.create_task(self._guarded(card, versions.get(card.approval, "")), name=f"card-{card.id}")
            self._working[card.key] = task
            task.add_done_callback(partial(self._worked, card.key))

    async def _plan(self, approval: str) -> None:
        """Note where a question is to be asked; in its thread once that shows what leads to it."""
        if (question := await self._approval(approval)) is None:
            return
        thread = await self._thread(question)
        try:
            spots = await self._elsewhere(question, thread)
        except f.SlackFailure as error:  # it does not say which workspace is the only one
            _log.warning("slack.card_delayed", approval=approval, error=str(error))
            return
        is_early = self._clock.now() - question.requested_at < SETTLE_MS
        if thread is None or not is_early or await self._rows.rests(question.session):
            spots += [Spot(thread.team, thread.channel, thread.root)] if thread else []
            self._planned.add(approval)
        if spots:
            await self._rows.plan(approval, question.session, spots)

    def _worked(self, key: int, _task: asyncio.Task[None]) -> None:
        del self._working[key]
        self._sweep.news.set()  # there is room again, and more to do perhaps

    async def _elsewhere(self, approval: ApprovalObject, thread: Thread | None) -> list[Spot]:
        """Return where a question is to be asked besides its *thread*, as its agent's author said."""
        spots: list[Spot] = []
        for place in approval.deliver_to:
            kind, _, rest = place.partition(":")
            team, _, channel = rest.rpartition("/")
            if kind != "slack":
                continue
            if not (team := team or (thread.team if thread else await self._workspaces.only())):
                _log.error("slack.card_unplaced", place=place, remedy="write it as slack:<workspace id>/<channel id>")
                continue
            spots.append(Spot(team, channel))
        return spots

    async def _guarded(self, card: Card, version: str) -> None:
        """Bring a card up to date; whatever goes wrong, the sweep of some process takes it up again."""
        try:
            await self._bring(card, version)
        except LostPlace:
            _log.info("slack.card_elsewhere", card=card.id)
        except ParleyError as error:
            _log.warning("slack.card_not_shown", card=card.id, error=str(error))
        except Exception as error:  # noqa: BLE001 - the boundary of a task: one card's fault is no other's
            _log.error("slack.failed", card=card.id, exception=trace_of(error))
            with suppress(LostPlace, Unavailable):  # what is wrong may be there to stay
                await self._rows.leave(card, again=SLOWEST * 2.0 ** min(card.tries, 6), tries=card.tries + 1)

    async def _bring(self, card: Card, version: str) -> None:
        question = await self._approval(card.approval)
        is_open = question is not None and question.status == "open"
        if not is_open and not card.refs and card.state == PLANNED:  # decided before it was asked here
            await self._rows.leave(card, state=SETTLED)
            return
        screen: CardScreen | None = None
        try:
            screen = CardScreen(self._rows, await self._workspaces.space(card.spot.team), self._clock, card)
            await screen.open()
            if is_open or screen.card.refs:
                about = await self._about(question, card.spot)
                await screen.show(pages(question, about, least=len(screen.card.refs)))
        except (f.SlackFailure, NotFound) as error:
            await self._put_off(screen.card if screen else card, error, is_open=is_open)
            return
        if question is not None and screen.card.refs:
            place = f"{screen.card.spot.place}:{screen.card.refs[0]}"
            await self._core.approvals.note(question.id, "delivered", surface="slack", place=place)
        before = replace(screen.card, version=card.version)  # as it was before what is shown was read
        await self._rows.leave(before, state=SHOWN if is_open else SETTLED, version=version, tries=0)

    async def _put_off(self, card: Card, error: f.SlackFailure | NotFound, *, is_open: bool) -> None:
        """Schedule a retry: soon for errors that pass by themselves, slowly for those that a person must fix."""
        pause = min(2.0**card.tries, SLOWEST)
        match error:
            case f.Limited():
                (await self._workspaces.space(card.spot.team)).pacer.penalty(
                    error.method, card.spot.team, error.retry_after
                )
                pause = error.retry_after
            case f.NotSent() | f.Uncertain():
                _log.info("slack.card_delayed", card=card.id, error=str(error))
            case _:
                pause = SLOWEST if is_open else pause
                if card.tries == 0:
                    place = card.spot.place
                    _log.error("slack.card_undelivered", approval=card.approval, place=place, error=str(error))
        over = not is_open and card.tries >= GIVEN_UP
        state = {"state": SETTLED} if over else {}
        await self._rows.leave(card, again=pause, tries=card.tries + 1, **state)

    async def _approval(self, approval: str) -> ApprovalObject | None:
        try:
            return await self._core.approvals.get(approval)
        except NotFound:
            return None

    async def _thread(self, approval: ApprovalObject) -> Thread | None:
        data = await self._rows.thread_of(approval.session)
        return Thread.read(data) if data is not None else None

    async def _about(self, approval: ApprovalObject | None, spot: Spot) -> CardContext:
        if approval is None:
            return CardContext(spot.team, "")
        agent, origin = approval.agent, None
        with suppress(NotFound):
            agent = (await self._core.agents.get(approval.agent)).definition.name
        thread = await self._thread(approval)
        if thread is not None and thread.team == spot.team and thread.channel != spot.channel and not thread.is_dm:
            origin = thread.channel
        careful, words = True, ""
        if approval.status == "open":
            tool = await self._core.approvals.tool(approval.id)
            careful, words = tool is None or tool.effect == "write", await self._core.approvals.question(approval.id)
        link = await self._link(approval, thread, spot)
        return CardContext(spot.team, agent, origin, careful=careful, words=words, link=link)

    async def _link(self, approval: ApprovalObject, thread: Thread | None, spot: Spot) -> str | None:
        """Return the address of the conversation, unless the card is in it or Slack does not give it."""
        if thread is None:
            return f"{self._public_url.rstrip('/')}/operator#/s/{approval.session}" if self._public_url else None
        if (thread.team, thread.channel, thread.root) == (spot.team, spot.channel, spot.root):
            return None
        if thread.address not in self._links:
            space = await self._workspaces.space(thread.team)
            try:
                await space.pacer.admit("chat.getPermalink", space.team, thread.channel, Lane.FIRST)
                link = await space.api.permalink(thread.channel, thread.root)
            except f.SlackFailure as error:
                _log.info("slack.no_link", team=space.team, reason=error.reason)
                return None
            if len(self._links) >= MAX_LINKS:
                self._links.clear()
            self._links[thread.address] = link
        return self._links[thread.address]
