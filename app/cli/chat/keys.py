"""The keys of the input area, beside those of any line editor."""

from typing import TYPE_CHECKING

from prompt_toolkit.filters import Condition, is_searching
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from app.cli.chat.conversation import INTERRUPT

if TYPE_CHECKING:
    from app.cli.chat.area import InputArea


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
