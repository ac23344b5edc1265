"""The sentence in a thread which says that a message is queued while its conversation waits, and for what."""

from agent_core import Core, NotFound, PendingCall, Receipt, RunObject
from channels.legible import unmistakable
from channels.slack.cards import words as w
from channels.slack.cards.words import Sentence, text
from channels.slack.outbound.finding import mark
from channels.slack.thread import Thread
from channels.slack.web_api.pace import Lane
from channels.slack.web_api.workspaces import Installation

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
    await space.pacer.admit("chat.postMessage", space.team, thread.channel, Lane.EDIT)
    # With a mark of its own it is not mistaken for a part of an answer.
    await space.api.post(thread.channel, words, thread_ts=thread.root, metadata=mark(f"queued:{receipt.message}"))


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
