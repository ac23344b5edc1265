"""The tables and charts of one thread, and their files: each is in the ledger before it can be seen, so there once.

A drawing that a message shows is uploaded without a channel: only the app can see it, so a lost one is uploaded
again. A file that is shared has its id persisted before the call that makes it visible, which Slack takes once per
upload; when that call's answer is lost, Slack is asked whether it was shared.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from operator import is_
from typing import Any, Literal, Protocol, TypeVar, cast

import structlog

from agent_core.charts.draw import DrawingUnavailable
from agent_core.charts.made import in_render_thread
from agent_core.charts.text import csv_of
from agent_core.charts.values import PlainChart
from agent_core.clock import Clock
from agent_core.errors import ParleyError
from agent_core.traces import trace_of
from channels.ledger import Ledger, LostPlace, OwnedPlace, UploadEntry, UploadState
from channels.slack import api as f
from channels.slack import limits
from channels.slack.api import BadBlocks
from channels.slack.charts import Ladders, choose
from channels.slack.pace import Workspace
from channels.slack.picture import DrawnItem, Item, words_item
from channels.slack.settings import Thread
from channels.slack.tables import ChartLink, ChosenForm, CsvUpload, Json, Ladder, PngUpload
from channels.spec import ConversationView, ShownRender

UploadForm = Literal["png", "csv"]
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
        shares: f.Json = (info or {}).get("shares") or {}
        if any(self._thread.channel in places for places in shares.values()):
            return True
        try:
            await self._complete(plan, file)
        except f.SlackRefused:
            # Slack takes it once per upload: of a file that it knows, it took it before.
            return info is not None
        return True

    async def _known_to_slack(self, file: str) -> f.Json | None:
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
        if not content or len(content) > limits.FILE_BYTES:
            raise _NoContentError
        if len(content) <= MAX_KEPT:
            self._content[plan.key] = content
        ask = partial(self._api.upload_url, plan.name, len(content), alt=plan.alt[: limits.FILE_ALT])
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
            with suppress(f.Limited):
                return await self._space.call(method, None, ask)
        raise f.NotSent(method, "it was limited again and again")

    async def _keep(self, plan: PlannedFile, state: UploadState, file: str | None = None) -> None:
        row = UploadEntry(plan.render, plan.form, file, state)
        await self._ledger.put_upload(self._place, row)
        self._rows = {**(self._rows or {}), plan.key: row}
        if state in ("shown", "failed") or plan.form == "png":
            self._content.pop(plan.key, None)


EARLY = 4
"""Image blocks with a fresh file that Slack may refuse before the chart is shown in another form."""
DRAWING = 60.0
"""Seconds for a drawing, the wait for others included, until its chart is shown as its data."""
PAUSE = 5.0
"""Seconds until a drawing is asked for again that could not be made at the moment: the longest that one takes."""
LOOK = 0.5
"""Seconds between two looks at files that are under way."""


class PngDrawer(Protocol):
    """Draws charts; what cannot be drawn is a `ParleyError`."""

    async def png(self, spec: Mapping[str, Any], /, *, owner: str = "") -> bytes: ...


class ChartLinks(Protocol):
    """Links to pictures of charts that another service draws; None when it cannot."""

    async def link(self, chart: PlainChart, /) -> str | None: ...


@dataclass(frozen=True, slots=True)
class ChartPorts:
    """What draws the charts that Slack cannot: this machine, and the service of `QUICKCHART_URL` if that is set."""

    drawer: PngDrawer | None = None
    links: ChartLinks | None = None


DrawnItems = Mapping[str, Item | None]
NO_CHARTS = ChartPorts()


@dataclass(slots=True)
class _Refusals:
    """How often Slack refused a picture whose file may still be processed; it is tried again at *until* (ms)."""

    count: int = 0
    until: int = 0


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The *forms* of *ladders* whose steps begin at *first*."""

    ladders: tuple[Ladder, ...]
    first: Mapping[str, int]
    forms: tuple[ChosenForm, ...]

    def are_of(self, ladders: Sequence[Ladder], first: Mapping[str, int]) -> bool:
        """Return whether these are the forms of the very same *ladders* and steps."""
        same = len(ladders) == len(self.ladders) and all(map(is_, ladders, self.ladders))
        return same and first == self.first


@dataclass(slots=True)
class ThreadFigures:
    """The tables and charts of one thread."""

    files: ThreadFiles
    ports: ChartPorts
    clock: Clock
    _ladders: Ladders = field(init=False)
    _first: dict[str, int] = field(default_factory=dict[str, int])
    _early: dict[str, _Refusals] = field(default_factory=dict[str, _Refusals])
    _attached: dict[str, PlannedFile] = field(default_factory=dict[str, PlannedFile])
    _drawing: dict[str, Ladder] = field(default_factory=dict[str, Ladder])
    _links: dict[str, asyncio.Task[str | None]] = field(default_factory=dict[str, "asyncio.Task[str | None]"])
    _chosen: _Chosen | None = None

    def __post_init__(self) -> None:
        self._ladders = Ladders(links=self.ports.links is not None)

    async def items(self, body: ConversationView) -> dict[str, Item | None]:
        """Return how each table and chart of *body* is shown now, None for a picture that is still to come."""
        renders = [each for message in body.recent for call in message.calls for each in call.renders]
        ladders = await self._ladders_of(renders)
        if not ladders:
            return {}
        await self.files.load()
        self._begin(ladders)
        while True:
            items: dict[str, Item | None] = {}
            for ladder, choice in zip(ladders, await self._choose(ladders), strict=True):
                item = self._item(ladder, choice)
                if item is choice:  # it cannot be had: the forms of all are chosen again
                    self._first[choice.render] = choice.step + 1
                    break
                if isinstance(choice.form.upload, CsvUpload):
                    self._attached[choice.render] = _csv(ladder, choice.form.upload)
                items[choice.render] = cast("Item | None", item)
            else:
                return items

    def share(self, items: DrawnItems, displayed: Collection[Item]) -> bool:
        """Share the files that go with those of *items* that are *displayed*; return whether one is still to come."""
        for key in {item.key for item in displayed} & items.keys() & self._attached.keys():
            self.files.progress(self._attached[key])
        return any(item is None or self._is_pending(key) for key, item in items.items())

    def step(
        self, error: BadBlocks, call: Mapping[str, Any], wanted: Sequence[Item], displayed: Sequence[Item]
    ) -> bool:
        """Return whether a table or a chart of *wanted* is to blame for the refusal of *call*, and is plainer now.

        Without a pointer it is those that Slack did not take before.
        """
        sent = [id(block) for _, block in _blocks(call)]
        drawn = [
            item for item in wanted if isinstance(item, DrawnItem) and any(id(each) in sent for each in item.blocks)
        ]
        if error.pointers:
            named = {id(block) for place, block in _blocks(call) if any(_is_at(each, place) for each in error.pointers)}
            blamed = [item for item in drawn if any(id(each) in named for each in item.blocks)]
        else:
            blamed = [item for item in drawn if item not in displayed] or drawn
        for item in blamed:
            self._refuse(item)
            _log.warning("slack.render_refused", method=error.method, reason=error.reason, form=item.step)
        return bool(blamed)

    async def close(self) -> None:
        """Stop what is under way."""
        for task in self._links.values():
            task.cancel()
        await asyncio.gather(*self._links.values(), return_exceptions=True)
        await self.files.close()

    async def _ladders_of(self, renders: Sequence[ShownRender]) -> list[Ladder]:
        """Return the ladders of those *renders* that have one; those that are not made yet are made in a thread."""
        if not all(map(self._ladders.has, renders)):
            await in_render_thread(lambda: [self._ladders.of(each) for each in renders])
        return [ladder for each in renders if (ladder := self._ladders.of(each)) is not None]

    async def _choose(self, ladders: Sequence[Ladder]) -> tuple[ChosenForm, ...]:
        """Return how all of *ladders* are shown; forms are made in a thread, and only when something else is shown."""
        first = {each.render.id: self._first.get(each.render.id, 0) for each in ladders}
        if self._chosen is None or not self._chosen.are_of(ladders, first):
            self._chosen = _Chosen(tuple(ladders), first, await in_render_thread(lambda: _forms(ladders, first)))
        return self._chosen.forms

    def _begin(self, ladders: Sequence[Ladder]) -> None:
        """Forget what is known of a render that shows something else now under its id: its call ran again."""
        for ladder in ladders:
            key = ladder.render.id
            if self._drawing.get(key) is not ladder:
                self._drawing[key] = ladder
                for figures in (self._first, self._early, self._attached):
                    figures.pop(key, None)
                if (link := self._links.pop(key, None)) is not None:
                    link.cancel()

    def _refuse(self, item: DrawnItem) -> None:
        early = self._early.setdefault(item.key, _Refusals())
        if item.has_file and early.count < EARLY:
            early.count += 1
            early.until = self.clock.now() + round(limits.FILE_READY * 1000)
        else:
            self._first[item.key] = item.step + 1

    def _is_pending(self, key: str) -> bool:
        if (attached := self._attached.get(key)) is None:
            return False
        progress = self.files.peek(attached)
        return progress is None or progress.state == "pending"

    def _item(self, ladder: Ladder, choice: ChosenForm) -> Item | ChosenForm | None:
        """Return how a render is shown, None while its picture is to come, and *choice* itself if that cannot be."""
        form, render = choice.form, ladder.render
        match form.upload:
            case PngUpload() as upload:
                return self._picture(ladder, choice, upload)
            case ChartLink() as link:
                address = self._linked(render.id, link)
                if address.state == "pending":
                    return None
                return choice if address.file is None else _drawn(choice, form.with_file(address.file))
            case CsvUpload() as upload if form.blocks:
                progress = self.files.peek(_csv(ladder, upload))
                is_missing = progress is not None and progress.state == "failed"
                return _drawn(choice, (form.without_file() or ()) if is_missing else form.blocks)
            case None if form.blocks:
                return _drawn(choice, form.blocks)
            case _:
                return words_item(render)

    def _picture(self, ladder: Ladder, choice: ChosenForm, upload: PngUpload) -> Item | ChosenForm | None:
        if self.ports.drawer is None:
            return choice
        content = partial(_png, self.ports.drawer, self.clock, upload.spec, self.files.session)
        plan = PlannedFile(ladder.key, "png", upload.name, upload.title, content, upload.alt)
        early = self._early.get(choice.render, _Refusals())
        progress = self.files.progress(plan)
        if progress.file is None:
            return None if progress.state == "pending" else choice
        if self.clock.now() < early.until:
            return None
        return _drawn(choice, choice.form.with_file(progress.file), has_file=True)

    def _linked(self, render: str, link: ChartLink) -> FileProgress:
        """Return how far the address of a picture is that another service draws."""
        assert self.ports.links is not None
        if (task := self._links.get(render)) is None:
            task = self._links[render] = asyncio.create_task(_link(self.ports.links, link.chart))
        if not task.done():
            return FileProgress("pending")
        address = task.result()
        return _FAILED if address is None else FileProgress("ready", address)


def _forms(ladders: Sequence[Ladder], first: Mapping[str, int]) -> tuple[ChosenForm, ...]:
    chosen = choose(ladders, first)
    for ladder in ladders:
        _ = ladder.key  # of all that is shown, which is read here too
    return chosen


async def _png(drawer: PngDrawer, clock: Clock, spec: Json, owner: str) -> bytes | None:
    """Return the drawing, asked for again while nothing can be drawn; None when there is none after `DRAWING`."""
    end = clock.now() + DRAWING * 1000
    while True:
        try:
            async with asyncio.timeout(DRAWING):
                return await drawer.png(spec, owner=owner)
        except (ParleyError, TimeoutError) as error:
            if not isinstance(error, DrawingUnavailable) or clock.now() + PAUSE * 1000 > end:
                _log.warning("slack.not_drawn", error=str(error) or "it took too long")
                return None
        await clock.sleep(PAUSE)


async def _link(links: ChartLinks, chart: PlainChart) -> str | None:
    try:
        async with asyncio.timeout(DRAWING):
            return await links.link(chart)
    except (ParleyError, TimeoutError) as error:
        _log.warning("slack.not_linked", error=str(error) or "it took too long")
        return None


def _csv(ladder: Ladder, upload: CsvUpload) -> PlannedFile:
    async def content() -> bytes | None:
        return await asyncio.to_thread(csv_of, upload.kind, upload.payload)

    return PlannedFile(ladder.key, "csv", upload.name, upload.title, content)


def _drawn(choice: ChosenForm, blocks: tuple[Json, ...], *, has_file: bool = False) -> DrawnItem:
    return DrawnItem(choice.render, blocks, choice.form.text, choice.step, has_file)


def _blocks(call: Mapping[str, Any]) -> Iterator[tuple[str, Json]]:
    """Give the blocks of a call, each with the JSON pointer to it."""
    yield from ((f"/blocks/{n}", block) for n, block in enumerate(call.get("blocks") or ()))
    for at, chunk in enumerate(cast("Sequence[Json]", call.get("chunks") or ())):
        blocks: Sequence[Json] = chunk.get("blocks") or ()
        yield from ((f"/chunks/{at}/blocks/{n}", block) for n, block in enumerate(blocks))


def _is_at(pointer: str, place: str) -> bool:
    """Return whether *pointer* is to the block at *place*, or into it."""
    return pointer == place or pointer.startswith(f"{place}/")
