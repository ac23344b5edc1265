"""What a thread shows of tables and charts: the best form that Slack takes, and the files that go with it.

A picture that is not there yet is absent: the text of an answer never waits for one. A form that Slack refuses is
followed by the next plainer one of that render; everything else of its message stays as it is.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import is_
from typing import Any, Protocol, cast

import structlog

from agent_core import Clock, DrawingUnavailable, ParleyError, PlainChart, csv_of, in_render_thread
from channels.base import ConversationView, ShownRender
from channels.slack.outbound.drawn.choose import Ladders, choose
from channels.slack.outbound.drawn.form import ChartLink, CsvUpload, Json, PngUpload, note
from channels.slack.outbound.drawn.ladder import ChosenForm, Ladder
from channels.slack.outbound.picture import DrawnItem, Item, words_item
from channels.slack.outbound.uploading import FileProgress, PlannedFile, ThreadFiles
from channels.slack.web_api import limits
from channels.slack.web_api.failures import BadBlocks

EARLY = 4
"""Image blocks with a fresh file that Slack may refuse before the picture is shared as a file of its own."""
DRAWING = 60.0
"""Seconds for a drawing, the wait for others included, until its chart is shown as its data."""
PAUSE = 5.0
"""Seconds until a drawing is asked for again that could not be made at the moment: the longest that one takes."""
LOOK = 0.5
"""Seconds between two looks at files that are under way."""
_FAILED = FileProgress("failed")
_log = structlog.get_logger("parley.slack")


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
            early.until = self.clock.now() + round(limits.FILE_READY.value * 1000)
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
        if early.count >= EARLY or self.files.has_begun(ladder.key, "shared"):
            shared = self.files.progress(PlannedFile(ladder.key, "shared", *_rest(plan)))
            if shared.state == "ready":
                below = note(f"The chart is the file {upload.name} in this thread.")
                return _drawn(choice, (*choice.form.blocks, below))
            return None if shared.state == "pending" else choice
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


def _rest(plan: PlannedFile) -> tuple[str, str, Callable[[], Awaitable[bytes | None]], str]:
    return plan.name, plan.title, plan.content, plan.alt


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
