"""admission: when the calls of one thread may be made, and what a failed one means for what is shown."""

from dataclasses import dataclass

import structlog

from agent_core import ParleyError
from channels.base import NotShown
from channels.delivery import Deferred
from channels.slack.outbound.finding import is_there
from channels.slack.outbound.thread_message import GaveUp, ThreadMessage
from channels.slack.thread import Thread
from channels.slack.web_api import failures as f
from channels.slack.web_api.pace import Lane
from channels.slack.web_api.workspaces import Workspace

MAX_REFUSALS = 5
"""Refusals of a message by Slack before it is given up."""
SOON, LATER, MUCH_LATER = 1.0, 5.0, 60.0
_log = structlog.get_logger("parley.slack")


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
                message.refused += 1
                return (
                    GaveUp(str(error)) if message.refused >= MAX_REFUSALS else NotShown(str(error), retry_after=LATER)
                )
