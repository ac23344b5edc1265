"""The input area of `parley chat`: a message, a list or a text that is asked for, and whose turn the keys are."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.data_structures import Point
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, is_searching
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Container,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.output import Output
from prompt_toolkit.widgets import SearchToolbar

from agent_core.clock import Clock
from app.cli.chat.conversation import COMMANDS, INTERRUPT

QUIET = 500
"""Milliseconds without a key, the question on the screen and nothing typed, before its list takes the keys."""
SETTLED = 150
"""Milliseconds that the list has had the keys, on the screen, before one decides: what is pasted as keys is faster."""


@dataclass(slots=True)
class Turn:
    """The times at which a question was drawn, keys came, and its list was drawn as the one that has them.

    Times are milliseconds of *clock*. `is_aside` says that the list takes the keys only when the person asks for it.
    """

    clock: Clock
    is_aside: bool = False
    _shown: int | None = None
    _entered: int | None = None
    _pressed: int | None = None

    def begin(self) -> None:
        """Start with a question that has not been drawn yet."""
        self.is_aside, self._shown, self._entered = False, None, None

    def press(self, *, in_list: bool) -> None:
        """Take notice of a key; one for the message keeps the list from taking the keys."""
        self._pressed = self.clock.now()
        if self._shown is not None and not in_list:
            self.is_aside = True

    def draw(self, *, in_list: bool) -> None:
        """Take notice that the question is on the screen, and whether its list is drawn with the keys."""
        now = self.clock.now()
        self._shown = now if self._shown is None else self._shown
        if not in_list:
            self._entered = None
        elif self._entered is None:
            self._entered = now

    def may_enter(self, draft: str) -> bool:
        """Return whether the list may take the keys unasked; a *draft* keeps them for the message."""
        if draft:
            self.is_aside = True
        if self.is_aside or self._shown is None:
            return False
        return self.clock.now() - max(self._shown, self._pressed or 0) >= QUIET

    @property
    def is_shown(self) -> bool:
        """Whether the question is on the screen."""
        return self._shown is not None

    @property
    def decides(self) -> bool:
        """Whether a key in the list is meant for it."""
        return self._entered is not None and self.clock.now() - self._entered >= SETTLED


def bindings(area: "InputArea") -> KeyBindings:
    """Return the keys of *area*: of its lists, of the texts that it asks for, and of messages."""
    keys = KeyBindings()
    _bind_menu(keys, area)
    _bind_field(keys, area)
    _bind_message(keys, area)
    typing = Condition(lambda: not area.is_picking) & ~is_searching

    @keys.add("escape", "enter", filter=typing)
    @keys.add("c-j", filter=typing)
    def _begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-x", "c-e", filter=typing)
    def _open_editor(event: KeyPressEvent) -> None:
        event.current_buffer.open_in_editor()

    @keys.add("c-z")
    def _suspend(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()

    return keys


def _bind_menu(keys: KeyBindings, area: "InputArea") -> None:
    picking = Condition(lambda: area.is_picking)

    @keys.add(Keys.Any, filter=picking)
    def _press(event: KeyPressEvent) -> None:
        area.press(event.data)

    @keys.add("up", filter=picking)
    @keys.add("s-tab", filter=picking)
    def _go_up(event: KeyPressEvent) -> None:  # noqa: ARG001 - of no interest
        area.move(-1)

    @keys.add("down", filter=picking)
    @keys.add("tab", filter=picking)
    def _go_down(event: KeyPressEvent) -> None:  # noqa: ARG001 - as above
        area.move(1)

    @keys.add("enter", filter=picking)
    @keys.add("c-j", filter=picking)
    def _pick(event: KeyPressEvent) -> None:  # noqa: ARG001 - as above
        area.pick()

    @keys.add("escape", filter=picking, eager=True)
    @keys.add("c-c", filter=picking)
    @keys.add("<sigint>", filter=picking)
    @keys.add("c-d", filter=picking)
    def _leave(event: KeyPressEvent) -> None:  # noqa: ARG001 - as above
        area.leave()

    @keys.add(Keys.BracketedPaste, filter=picking)
    def _paste(event: KeyPressEvent) -> None:
        area.write(event.data.replace("\r\n", "\n").replace("\r", "\n"))


def _bind_field(keys: KeyBindings, area: "InputArea") -> None:
    asking = Condition(lambda: area.field is not None and not area.is_picking) & ~is_searching

    @keys.add("enter", filter=asking)
    def _give(event: KeyPressEvent) -> None:
        area.give(event.current_buffer.text)

    @keys.add("escape", filter=asking)
    @keys.add("c-c", filter=asking)
    @keys.add("<sigint>", filter=asking)
    def _give_up(event: KeyPressEvent) -> None:  # noqa: ARG001 - of no interest
        area.give_up()


def _bind_message(keys: KeyBindings, area: "InputArea") -> None:
    writing = Condition(lambda: area.field is None and not area.is_picking) & ~is_searching
    empty = Condition(lambda: not area.message.text)
    has_question = Condition(lambda: area.question is not None)
    command = Condition(lambda: area.message.text.startswith("/"))

    @keys.add("enter", filter=writing)
    def _send(event: KeyPressEvent) -> None:  # noqa: ARG001 - of no interest
        text = area.message.text
        area.message.reset(append_to_history=bool(text.strip()))
        if text.strip():
            area.entries.queue.put_nowait(text)

    @keys.add("c-c", filter=writing)
    @keys.add("<sigint>", filter=writing)
    def _interrupt(event: KeyPressEvent) -> None:  # noqa: ARG001 - as above
        if area.message.text and not area.is_working:
            area.message.reset()
        else:
            area.entries.queue.put_nowait(INTERRUPT)

    @keys.add("c-d", filter=writing & empty)
    def _leave(event: KeyPressEvent) -> None:  # noqa: ARG001 - as above
        area.entries.queue.put_nowait(None)

    @keys.add("tab", filter=writing & has_question & ~command)
    @keys.add("escape", filter=writing & has_question & empty)
    def _enter(event: KeyPressEvent) -> None:  # noqa: ARG001 - as above
        area.enter()


PROMPT, MARK = "> ", "\u203a"
ASIDE = "Tab: decide \u00b7 what you type is a message, not the decision"


@dataclass(frozen=True, slots=True)
class Choice:
    """An item of a list: what it returns, its words, and a key that picks it at once."""

    value: str
    words: str
    key: str = ""


@dataclass(slots=True)
class Menu:
    """A list to pick from with the arrow keys; *picked* is its result, None for none of them; *at* None is no mark."""

    items: Sequence[Choice]
    hint: str
    picked: asyncio.Future[str | None]
    at: int | None = None


@dataclass(slots=True)
class TextPrompt:
    """A text that is asked for in place of a message; *answer* is its result, None when it is given up."""

    prompt: str
    hint: str
    answer: asyncio.Future[str | None]


@dataclass(slots=True)
class Entries:
    """What was typed, until it is taken; None is the end."""

    queue: asyncio.Queue[str | None] = field(default_factory=asyncio.Queue[str | None])

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await self.queue.get()) is not None:
            yield line


class InputArea:
    """Reads lines and keys, and prints above them; it works within `running`."""

    def __init__(
        self,
        clock: Clock,
        *,
        history: History | None = None,
        input: Input | None = None,
        output: Output | None = None,
        reads: bool,
    ) -> None:
        self.entries = Entries()
        self.asked_for: Menu | None = None
        self.question: Menu | None = None
        self.turn = Turn(clock)
        self.field: TextPrompt | None = None
        self.hint = ""
        self._live, self._since, self._status = "", 0.0, ""
        self._shown: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self.reads = reads
        self.message = Buffer(
            multiline=True, history=history or InMemoryHistory(), completer=_Slashes(), tempfile_suffix=".md"
        )
        self.other = Buffer(multiline=True, tempfile_suffix=".json")
        self.search = SearchToolbar()
        self._list = FormattedTextControl(self._choices, focusable=True, show_cursor=False)
        self.app: Application[None] = Application(
            layout=self._layout(),
            key_bindings=bindings(self) if reads else None,
            input=input,
            output=output,
            erase_when_done=True,
            refresh_interval=0.5,
        )
        self.app.ttimeoutlen, self.app.timeoutlen = 0.05, 0.5
        self.app.before_render += lambda _: self._enter_when_quiet()
        self.app.after_render += lambda _: self._notice_drawn()
        self.app.key_processor.before_key_press += lambda _: self.turn.press(in_list=self.is_picking)

    @property
    def menu(self) -> Menu | None:
        """The list on the screen: one that the person asked for is before a question."""
        return self.asked_for or self.question

    @property
    def is_picking(self) -> bool:
        """Whether keys go to the list."""
        return self.menu is not None and self.app.layout.has_focus(self._list)

    @property
    def width(self) -> int:
        """The columns of the terminal."""
        return self.app.output.get_size().columns

    @property
    def is_working(self) -> bool:
        """Whether a status is shown."""
        return bool(self._status)

    def show(self, above: str, live: str) -> None:
        """Print *above* for good, and show *live* under it until the next call; both may have colours."""
        self._shown.put_nowait((above, live))

    def work(self, status: str) -> None:
        """Show *status* and for how long it has been so; an empty one ends that."""
        if status and not self._status:
            self._since = monotonic()
        self._status = status
        self.app.invalidate()

    async def choose(self, items: Sequence[Choice], hint: str) -> str | None:
        """Return the value of the item that the person, who asked for the list, picks; None when none is."""
        self.asked_for = Menu(items, hint, asyncio.get_running_loop().create_future(), at=0)
        self._focus(self._list)
        try:
            return await self.asked_for.picked
        finally:
            self.asked_for = None
            self._focus(self.message if self.field is None else self.other)

    async def decide(self, items: Sequence[Choice], hint: str) -> str | None:
        """Return the value of the item that the person picks of a list that came unasked, with nothing marked in it.

        What the person types goes on into their message: the list takes the keys as `Turn` says.
        """
        self.question = Menu(items, hint, asyncio.get_running_loop().create_future())
        self.turn.begin()
        self.app.invalidate()
        try:
            return await self.question.picked
        finally:
            self.question = None
            if self.asked_for is None:
                self.leave()

    async def ask(self, prompt: str, hint: str, text: str = "") -> str | None:
        """Return what the person makes of *text*, None when they give up."""
        self.field = TextPrompt(prompt, hint, asyncio.get_running_loop().create_future())
        self.other.document = Document(text, len(text))
        self._focus(self.other)
        try:
            return await self.field.answer
        finally:
            self.field = None
            if self.app.layout.has_focus(self.other):
                self._focus(self.message)

    def enter(self) -> None:
        """Give the keys to the list of the question."""
        if self.question is not None and self.turn.is_shown:
            self._focus(self._list)

    def leave(self) -> None:
        """Give the keys back to the message, whatever was typed of it; a list that was asked for is over."""
        self.turn.is_aside = True
        if self.asked_for is not None:
            _finish(self.asked_for.picked, None)
        elif self.app.layout.has_focus(self._list):
            self._focus(self.message)

    def move(self, by: int) -> None:
        """Go up or down in the list; the first step is to an end of it."""
        if self.menu is not None:
            at = self.menu.at
            self.menu.at = min(by, 0) % len(self.menu.items) if at is None else (at + by) % len(self.menu.items)

    def press(self, key: str) -> None:
        """Pick the item of the list that has *key*; a key that decides nothing begins a message."""
        if self.menu is None:
            return
        matches = [item for item in self.menu.items if item.key == key]
        if matches and self.can_pick:
            _finish(self.menu.picked, matches[0].value)
        elif self.asked_for is None and key.isprintable():
            self.write(key)

    def write(self, text: str) -> None:
        """Add *text* to the message, and give it the keys."""
        self.message.insert_text(text)
        self.leave()

    def pick(self) -> None:
        """Pick the item of the list that the arrow keys marked."""
        if self.menu is not None and self.menu.at is not None and self.can_pick:
            _finish(self.menu.picked, self.menu.items[self.menu.at].value)

    @property
    def can_pick(self) -> bool:
        """Whether a key in the list picks: in one that was asked for always, else as `Turn` says."""
        return self.asked_for is not None or self.turn.decides

    def give(self, text: str) -> None:
        """Take *text* as the one that is asked for."""
        if self.field is not None:
            _finish(self.field.answer, text)

    def give_up(self) -> None:
        """Give no text."""
        if self.field is not None:
            _finish(self.field.answer, None)

    @asynccontextmanager
    async def running(self, *, catches_interrupt: bool) -> AsyncIterator[None]:
        """Draw, read and print until the block ends; what was to be printed by then is."""
        drawing = asyncio.create_task(self.app.run_async(handle_sigint=catches_interrupt))
        printing = asyncio.create_task(self._print_all())
        drawing.add_done_callback(lambda _: self.entries.queue.put_nowait(None))
        try:
            yield
        finally:
            finished = asyncio.create_task(self._shown.join())
            await asyncio.wait((finished, printing), return_when=asyncio.FIRST_COMPLETED)
            printing.cancel()
            if self.app.is_running:
                self.app.exit()
            await asyncio.wait((drawing, printing, finished))
            with suppress(EOFError):  # the terminal was closed
                drawing.result()

    async def _print_all(self) -> None:
        with set_app(self.app):
            while True:
                shown = [await self._shown.get()]
                while not self._shown.empty():
                    shown.append(self._shown.get_nowait())
                await self._print("".join(above for above, _ in shown), shown[-1][1])
                for _ in shown:
                    self._shown.task_done()

    async def _print(self, above: str, live: str) -> None:
        def write() -> None:
            self._live = live
            self.app.output.write_raw(above.replace("\n", "\r\n"))
            self.app.output.flush()

        if above:
            await run_in_terminal(write)
        else:
            self._live = live
            self.app.invalidate()

    def _focus(self, on: Buffer | FormattedTextControl) -> None:
        self.app.layout.focus(on)
        self.app.invalidate()

    def _enter_when_quiet(self) -> None:
        is_idle = self.question is not None and self.app.layout.has_focus(self.message)
        if is_idle and self.turn.may_enter(self.message.text):
            self.enter()

    def _notice_drawn(self) -> None:
        if self.question is not None and self.asked_for is None:
            self.turn.draw(in_list=self.is_picking)

    def _layout(self) -> Layout:
        live = FormattedTextControl(lambda: ANSI(self._live), show_cursor=False, get_cursor_position=self._end_of_live)
        parts: list[Container] = [
            _optional(Window(live, wrap_lines=True, dont_extend_height=True), lambda: bool(self._live)),
            _optional(_window(self._working), lambda: bool(self._status)),
        ]
        if self.reads:
            parts += [
                Window(height=1),
                _optional(Window(self._list, wrap_lines=True, dont_extend_height=True), lambda: self.menu is not None),
                _optional(_typing(self.other, lambda: self.field.prompt if self.field else ""), self._is_field),
                _optional(_typing(self.message, lambda: PROMPT, self.search), self._is_message),
                self.search,
                _optional(_window(self._hints), lambda: bool(self._hints())),
            ]
        else:
            parts.append(Window(height=0))
        return Layout(HSplit(parts), focused_element=self.message if self.reads else None)

    def _is_field(self) -> bool:
        return self.field is not None

    def _is_message(self) -> bool:
        return self.field is None and (not self.is_picking or bool(self.message.text))

    def _end_of_live(self) -> Point:
        return Point(0, self._live.count("\n"))

    def _working(self) -> StyleAndTextTuples:
        return [("fg:ansibrightblack", f"{self._status} {monotonic() - self._since:.0f} s")]

    def _choices(self) -> StyleAndTextTuples:
        fragments: StyleAndTextTuples = []
        for at, item in enumerate(self.menu.items if self.menu else ()):
            chosen = self.menu is not None and at == self.menu.at
            key = f" ({item.key})" if item.key else ""
            fragments.append(("bold" if chosen else "", f"{MARK if chosen else ' '} {item.words}{key}\n"))
        hint = self.menu.hint if self.menu and self.is_picking else ASIDE
        return [*fragments, ("fg:ansibrightblack", hint)]

    def _hints(self) -> StyleAndTextTuples:
        if self.field is not None:
            return [("fg:ansibrightblack", self.field.hint)]
        typed = self.message.text
        if not self.is_picking and typed.startswith("/") and not typed.startswith("//") and " " not in typed:
            rows = [f"  {name:<10} {words}" for name, words in COMMANDS.items() if name.startswith(typed)]
            return [("fg:ansibrightblack", "\n".join(rows))] if rows else []
        return [("fg:ansibrightblack", self.hint)] if self.hint and self.menu is None else []


class _Slashes(Completer):
    """Completes the names of commands."""

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:  # noqa: ARG002
        typed = document.text
        if typed.startswith("/") and not any(map(str.isspace, typed)):
            yield from (Completion(name, -len(typed)) for name in COMMANDS if name.startswith(typed))


def open_history(path: Path | None) -> History:
    """Return the history in the file *path*, which others cannot read; one in memory where there can be none."""
    if path is None:
        return InMemoryHistory()
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
        return FileHistory(str(path))
    return InMemoryHistory()


def _finish(result: "asyncio.Future[str | None]", value: str | None) -> None:
    if not result.done():
        result.set_result(value)


def _optional(window: Window, is_shown: Callable[[], bool]) -> ConditionalContainer:
    return ConditionalContainer(window, filter=Condition(is_shown))


def _window(text: Callable[[], StyleAndTextTuples]) -> Window:
    return Window(FormattedTextControl(text), wrap_lines=True, dont_extend_height=True)


def _typing(buffer: Buffer, prompt: Callable[[], str], search: SearchToolbar | None = None) -> Window:
    """Return the window of *buffer*, its lines after *prompt*."""

    def prefix(line: int, wrap: int) -> str:
        return prompt() if line == 0 and wrap == 0 else " " * len(prompt())

    control = BufferControl(buffer, search_buffer_control=search.control if search else None)
    return Window(
        control, wrap_lines=True, dont_extend_height=True, get_line_prefix=prefix, height=Dimension(min=1, max=12)
    )
