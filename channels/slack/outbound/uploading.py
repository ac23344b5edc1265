"""The files of one thread, each in the ledger before it can be seen, so that after a crash it is there once.

A drawing that a message shows is uploaded without a channel: only the app can see it, so a lost one is uploaded
again. A file that is shared has its id persisted before the call that makes it visible, which Slack takes once per
upload; when that call's answer is lost, Slack is asked whether it was shared.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

import structlog

from agent_core import Clock, trace_of
from channels.ledger import Ledger, LostPlace, OwnedPlace, UploadEntry, UploadState
from channels.slack.thread import Thread
from channels.slack.web_api import failures as f
from channels.slack.web_api import limits
from channels.slack.web_api.client import Json
from channels.slack.web_api.pace import Lane
from channels.slack.web_api.workspaces import Workspace

UploadForm = Literal["png", "csv", "shared"]
PAUSES = (1.0, 2.0, 4.0, 8.0, 15.0)
"""Seconds between two attempts at an upload whose outcome is not known; then the render is shown without it."""
MAX_KEPT = 1_000_000
"""Bytes up to which a file is kept in memory for the next attempt; a larger one is made again."""
_MAX_ATTEMPTS = 10
"""Attempts at a call that is limited each time."""
_NO_FILES = frozenset({"file_uploads_disabled", "storage_limit_reached", "restricted_action", "not_allowed"})
"""Refusals that concern every file of a workspace."""
T = TypeVar("T")
_log = structlog.get_logger("parley.slack")


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file for what a *render* shows, by its `content_key`; *content* makes its bytes, None when there are none.

    A `png` is for an image block; the other forms are messages of their own in the thread.
    """

    render: str
    form: UploadForm
    name: str
    title: str
    content: Callable[[], Awaitable[bytes | None]]
    alt: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.render, self.form


@dataclass(frozen=True, slots=True)
class FileProgress:
    """How far a file got; *file* is its id once it is ready."""

    state: Literal["pending", "ready", "failed"]
    file: str | None = None


_PENDING, _FAILED = FileProgress("pending"), FileProgress("failed")


class _NoContentError(Exception):
    """There is nothing to upload."""


class ThreadFiles:
    """Uploads the files of one thread, each in a task of its own, so that no message waits for one."""

    def __init__(self, space: Workspace, thread: Thread, ledger: Ledger, place: OwnedPlace, clock: Clock) -> None:
        self._space, self._api, self._thread = space, space.api, thread
        self._ledger, self._place, self._clock = ledger, place, clock
        self._tasks: dict[tuple[str, str], asyncio.Task[str | None]] = {}
        self._rows: dict[tuple[str, str], UploadEntry] | None = None
        self._content: dict[tuple[str, str], bytes] = {}

    @property
    def session(self) -> str:
        """Return the session that the thread shows."""
        return self._place.session

    async def load(self) -> None:
        """Read what an earlier process left, once."""
        if self._rows is None:
            self._rows = {(each.render, each.form): each for each in await self._ledger.uploads(self._place)}

    def progress(self, plan: PlannedFile) -> FileProgress:
        """Return how far the file of *plan* got; its upload begins if it has not. Raises `LostPlace`."""
        if (progress := self.peek(plan)) is not None:
            return progress
        self._tasks[plan.key] = asyncio.create_task(self._guarded(plan))
        return _PENDING

    def has_begun(self, render: str, form: UploadForm) -> bool:
        """Return whether such a file was begun, by this process or an earlier one."""
        return (render, form) in self._tasks or (render, form) in (self._rows or {})

    def peek(self, plan: PlannedFile) -> FileProgress | None:
        """Return how far the file of *plan* got, None when its upload has not begun. Raises `LostPlace`."""
        if (task := self._tasks.get(plan.key)) is None:
            progress = self._finished(plan.key)
            return _FAILED if progress is None and not self._space.can_upload(self._clock.now()) else progress
        if not task.done():
            return _PENDING
        file = task.result()
        return _FAILED if file is None else FileProgress("ready", file)

    async def close(self) -> None:
        """Stop what is under way; another process, or the next start, continues it."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _finished(self, key: tuple[str, str]) -> FileProgress | None:
        """Return what the rows say of a file that needs no more work."""
        row = (self._rows or {}).get(key)
        if row is None:
            return None
        if row.state == "failed":
            return _FAILED
        is_ready = row.file is not None and (row.state == "shown" or row.form == "png")
        return FileProgress("ready", row.file) if is_ready else None

    async def _guarded(self, plan: PlannedFile) -> str | None:
        """Return the id of the file, None when there will be none."""
        try:
            return await self._uploaded(plan)
        except LostPlace:
            raise
        except _NoContentError:
            return None
        except f.SlackFailure as error:
            if isinstance(error, f.Unauthorised) or error.reason in _NO_FILES:
                self._space.note_no_uploads(error, self._clock.now())
            _log.warning("slack.not_uploaded", method=error.method, reason=error.reason, form=plan.form)
            await self._keep(plan, "failed")
        except Exception as error:  # noqa: BLE001 - the boundary of a task: the render is shown without the file
            _log.error("slack.upload_failed", error=repr(error), form=plan.form, exception=trace_of(error))
        return None

    async def _uploaded(self, plan: PlannedFile) -> str | None:
        """Upload, once more after each attempt whose outcome is unknown; raises a `SlackFailure` that is final."""
        for pause in PAUSES:
            try:
                return await self._attempt(plan)
            except (f.Uncertain, f.NotSent, f.Limited) as error:
                _log.info("slack.upload_repeated", method=error.method, reason=error.reason)
                await self._clock.sleep(max(pause, getattr(error, "retry_after", 0.0)))
        return None

    async def _attempt(self, plan: PlannedFile) -> str:
        """Continue where the row of the file says, and return its id."""
        row = (self._rows or {}).get(plan.key)
        if row is not None and row.file is not None and await self._is_shared(plan, row.file):
            await self._keep(plan, "shown", row.file)
            return row.file
        file = await self._send(plan)
        if plan.form == "png":
            await self._complete(plan, file)
            await self._keep(plan, "sent", file)
        else:
            await self._keep(plan, "sent", file)
            await self._complete(plan, file)
            await self._keep(plan, "shown", file)
        return file

    async def _is_shared(self, plan: PlannedFile, file: str) -> bool:
        """Return whether *file*, which was sent before, is in the thread now; it is shared if it was not.

        False: Slack has lost its bytes, so they have to be sent again.
        """
        info = await self._known_to_slack(file)
        shares: Json = (info or {}).get("shares") or {}
        if any(self._thread.channel in places for places in shares.values()):
            return True
        try:
            await self._complete(plan, file)
        except f.SlackRefused:
            # Slack takes it once per upload: of a file that it knows, it took it before.
            return info is not None
        return True

    async def _known_to_slack(self, file: str) -> Json | None:
        """Return Slack's file object, None when there is no such complete file; empty when that cannot be asked."""
        try:
            return await self._call("files.info", lambda: self._api.file(file))
        except (f.SlackRefused, f.Unauthorised) as error:
            return None if error.reason == "file_not_found" else {}

    async def _send(self, plan: PlannedFile) -> str:
        """Send the bytes, and return the id of the file, which no one can see yet; few at a time in a process."""
        async with self._space.pacer.uploads:
            return await self._send_bytes(plan)

    async def _send_bytes(self, plan: PlannedFile) -> str:
        if (content := self._content.get(plan.key)) is None:
            content = await plan.content()
        if not content or len(content) > limits.FILE_BYTES.value:
            raise _NoContentError
        if len(content) <= MAX_KEPT:
            self._content[plan.key] = content
        ask = partial(self._api.upload_url, plan.name, len(content), alt=plan.alt[: limits.FILE_ALT.value])
        file, url = await self._call("files.getUploadURLExternal", ask)
        await self._api.put_bytes(url, content)
        return file

    async def _complete(self, plan: PlannedFile, file: str) -> None:
        """Keep the file: for image blocks, or as a message in the thread."""
        place = {} if plan.form == "png" else {"channel": self._thread.channel, "thread_ts": self._thread.root}
        ask = partial(self._api.complete_upload, file, plan.title, **place)
        await self._call("files.completeUploadExternal", ask)

    async def _call(self, method: str, ask: Callable[[], Awaitable[T]]) -> T:
        """Make a call when its rate allows it; a limited one is repeated."""
        for _ in range(_MAX_ATTEMPTS):
            await self._space.pacer.admit(method, self._space.team, None, Lane.FINAL, thread=self._thread.address)
            try:
                return await ask()
            except f.Limited as error:
                self._space.pacer.penalty(method, self._space.team, error.retry_after)
        raise f.NotSent(method, "it was limited again and again")

    async def _keep(self, plan: PlannedFile, state: UploadState, file: str | None = None) -> None:
        row = UploadEntry(plan.render, plan.form, file, state)
        await self._ledger.put_upload(self._place, row)
        self._rows = {**(self._rows or {}), plan.key: row}
        if state in ("shown", "failed") or plan.form == "png":
            self._content.pop(plan.key, None)
