"""Search a thread for a message of the app whose acknowledgement was lost."""

from collections.abc import Awaitable, Callable, Collection
from typing import Any

from channels.base import LedgerEntry
from channels.slack.thread import Thread
from channels.slack.web_api.client import Json, SlackApi
from channels.slack.web_api.failures import TargetMissing

EVENT_TYPE = "parley_delivery"
QUESTION = "command:"
"""The prefix of the ids of posts that are questions by a slash command."""
SKEW = 60
"""Seconds by which Slack's clock and ours may differ."""


def mark(delivery: str) -> dict[str, Any]:
    """Return the metadata that identifies the message of *delivery*."""
    return {"event_type": EVENT_TYPE, "event_payload": {"id": delivery}}


async def find(
    api: SlackApi,
    thread: Thread,
    entry: LedgerEntry,
    *,
    user: str,
    others: Collection[str],
    admit: Callable[[], Awaitable[None]],
) -> str | None:
    """Return the `ts` of the message of *entry* in *thread*, None when it is missing; *others* are of other rows.

    A stream has no metadata before it stops. But a thread has one pending message at a time, so the app's one that was
    posted since and that no row has is this one. *admit* is awaited before each page is read. Raises `SlackFailure`.
    """
    since = max(0, (entry.began_at or 0) // 1000 - SKEW)
    messages, cursor = list[Json](), None
    while True:
        await admit()
        page = await api.replies(thread.channel, thread.root, oldest=f"{since}.000000", cursor=cursor)
        messages += page.messages
        cursor = page.cursor
        if cursor is None:
            break
    # The thread's root is always among them, and is the app's after a slash command.
    # Files that were shared are messages of their own.
    ours = [
        each for each in messages if each.get("user") == user and each["ts"] != thread.root and not each.get("files")
    ]
    named = [each["ts"] for each in ours if marked(each) == entry.id]
    if named or entry.mode != "stream":
        return named[-1] if named else None
    nameless = [
        each["ts"] for each in ours if marked(each) is None and each["ts"] not in others and float(each["ts"]) >= since
    ]
    return nameless[-1] if nameless else None


async def is_there(api: SlackApi, thread: Thread, ts: str) -> bool:
    """Return whether the message at *ts* is in *thread* now; raises a `SlackFailure`."""
    try:
        page = await api.replies(thread.channel, thread.root, oldest=f"{float(ts) - 1:.6f}")
    except TargetMissing:
        return False
    return any(each["ts"] == ts and each.get("subtype") != "tombstone" for each in page.messages)


def marked(message: Json) -> str | None:
    """Return the delivery id in the metadata of *message*."""
    match message.get("metadata"):
        case {"event_type": kind, "event_payload": {"id": str(name)}} if kind == EVENT_TYPE:
            return name
        case _:
            return None
