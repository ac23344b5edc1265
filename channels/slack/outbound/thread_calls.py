"""The calls for one thread: when they are made, what is known of its messages, for whom streams are."""

from dataclasses import dataclass

import structlog

from agent_core import ParleyError
from channels.base import ConversationView, LedgerEntry, NotShown
from channels.delivery import Deferred
from channels.ledger import Ledger, OwnedPlace
from channels.slack.outbound.finding import is_there
from channels.slack.outbound.picture import MessagePicture, as_sent
from channels.slack.thread import Thread
from channels.slack.web_api import failures as f
from channels.slack.web_api.pace import Lane
from channels.slack.web_api.workspaces import Workspace

MAX_REFUSALS = 5
"""Refusals of a message by Slack before it is given up."""
WAIT = 5.0
"""Seconds for which the end of a stream waits for a picture; after them an update adds it."""
SOON, LATER, MUCH_LATER = 1.0, 5.0, 60.0
_log = structlog.get_logger("parley.slack")


class GaveUp(ParleyError):
    """The thread is gone or not accessible: nothing can be shown."""

    code = "thread_gone"


@dataclass(slots=True)
class ThreadMessage:
    """A message of the thread: its row, and *last*, what this process knows that it shows, since *at* (milliseconds).

    *unsure* is set when the thread could not be searched for it.
    """

    entry: LedgerEntry
    last: MessagePicture | None = None
    at: int = 0
    looks: int = 0
    refused: int = 0
    unsure: bool = False
    ends_at: int | None = None

    def waits(self, now: int) -> bool:
        """Return whether the end of its stream still waits for a picture, *now* in milliseconds."""
        self.ends_at = self.ends_at or now + round(WAIT * 1000)
        return now < self.ends_at

    def differs_from(self, wanted: MessagePicture) -> bool:
        """Return whether it shows something else than *wanted*, which only an update can change."""
        if self.last is None or self.entry.mode != "post":
            return False
        return as_sent(self.last.items, wanted.items, streams=False) != self.last.items

    def refusal(self, error: f.SlackFailure, *, retry_after: float) -> GaveUp | NotShown:
        """Count one more refusal, and return what it means: a retry after so many seconds, or to give up."""
        self.refused += 1
        return GaveUp(str(error)) if self.refused >= MAX_REFUSALS else NotShown(str(error), retry_after=retry_after)

    @property
    def ts(self) -> str:
        assert self.entry.ref is not None, "it was not sent yet"
        return self.entry.ref


class StreamRecipient:
    """The person for whom a thread's streams are: Slack wants the one who asked, outside of direct messages.

    *place* says who did when it was claimed, the ledger who does now.
    """

    def __init__(self, thread: Thread, ledger: Ledger, place: OwnedPlace) -> None:
        self._thread, self._ledger, self._place = thread, ledger, place
        self._resolved: str | None = None
        self._run: str | None = None

    def note(self, body: ConversationView) -> None:
        """Record the run that *body* shows; the first one is what the thread was claimed for."""
        self._run = next((run.id for run in reversed(body.runs) if run.status != "queued"), self._run)
        self._resolved = self._resolved or self._run

    async def ids(self) -> tuple[str | None, str | None]:
        """Return the user and the team for a stream that begins now; raises `LostPlace`.

        A run that begins while an earlier one is still shown, as while its picture is drawn, may be another person's.
        """
        if self._thread.is_dm:
            return None, None
        if self._run != self._resolved:
            self._resolved = self._run
            self._thread = Thread.read((await self._ledger.reload(self._place)).data)
        return self._thread.user, self._thread.user_team


@dataclass(frozen=True, slots=True)
class ThreadCalls:
    """The calls to Slack for *thread*."""

    space: Workspace
    thread: Thread

    async def admit(self, method: str, lane: Lane) -> None:
        """Wait until *method* may be called; raises `Deferred` for an edit, which is then retried with newer text."""
        where, thread = (self.space.team, self.thread.channel), self.thread.address
        if lane is not Lane.EDIT:
            await self.space.pacer.admit(method, *where, lane, thread=thread)
        elif wait := self.space.pacer.offer(method, *where, thread=thread):
            raise Deferred("Other threads edit, too.", retry_after=wait)

    async def is_there(self, message: ThreadMessage) -> bool:
        """Return whether the thread has *message*; where that cannot be asked, it is tried once more."""
        await self.admit("conversations.replies", Lane.FINAL)
        try:
            return await is_there(self.space.api, self.thread, message.ts)
        except f.SlackFailure as error:
            if isinstance(error, f.Limited):
                self.space.pacer.penalty(error.method, self.space.team, error.retry_after)
            message.looks += 1
            return message.looks == 1

    def not_shown(self, error: f.SlackFailure, message: ThreadMessage) -> ParleyError:
        """Return what *error* means for the delivery: retry, retry later, or give up."""
        match error:
            case f.Limited():
                self.space.pacer.penalty(error.method, self.space.team, error.retry_after)
                return NotShown(str(error), retry_after=error.retry_after)
            case f.TargetMissing():
                return GaveUp(str(error))
            case f.Unauthorised():
                self.space.log_missing(error)
                return NotShown(str(error), retry_after=MUCH_LATER)
            case f.NotSent() | f.Uncertain():
                return NotShown(str(error), retry_after=SOON)
            case _:
                _log.warning("slack.refused", method=error.method, reason=error.reason)
                return message.refusal(error, retry_after=LATER)
