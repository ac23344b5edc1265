"""The forms of one render, the best first; each is made once it is asked for."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from channels.base import ShownRender
from channels.slack.outbound.drawn.form import CsvUpload, Form
from channels.slack.outbound.drawn.room import Room, taken_by
from channels.slack.outbound.drawn.words import Twin, alone

FormMaker = Callable[[Room], Form | None]
"""Makes a form that fits into the room, None when there is no such form."""


@dataclass(frozen=True, slots=True)
class ChosenForm:
    """The *form* that a message shows of a *render*, by its id: the one of the ladder's *step* of that number.

    When Slack refuses it, the next choice begins at *step* + 1.
    """

    render: str
    step: int
    form: Form
    taken: Room


def content_key(render: ShownRender) -> str:
    """Return the name of what *render* shows: a call that runs again may show something else under the same id."""
    content = json.dumps([render.id, render.kind, render.title, render.payload], sort_keys=True, default=str)
    return f"{render.id[:40]}-{hashlib.sha256(content.encode()).hexdigest()[:16]}"


@dataclass(slots=True)
class Ladder:
    """The *steps* of a *render*; the last one fits everywhere: it has no blocks, and the text as far as there is room.

    The text is the *twin*. What is *attached* goes with that form, if the text does not show all. A form that was made
    is remembered, so that a message that is drawn again has the very same.
    """

    render: ShownRender
    steps: Sequence[FormMaker]
    twin: Twin
    attached: CsvUpload | None = None
    _made: dict[tuple[int, Room], ChosenForm | None] = field(default_factory=dict[tuple[int, Room], ChosenForm | None])
    _key: str | None = None

    @property
    def key(self) -> str:
        """The name of what it shows, which its files have."""
        if self._key is None:
            self._key = content_key(self.render)
        return self._key

    @property
    def last(self) -> int:
        """The number of the last step, which is text alone."""
        return len(self.steps)

    def best(self, room: Room, first: int = 0) -> ChosenForm:
        """Return the best form from the step *first* on that *room* holds."""
        for n in range(first, self.last):
            if (choice := self._at(n, room)) is not None:
                return choice
        text = alone(self.render, self.twin, room.text)
        return ChosenForm(self.render.id, self.last, Form((), text, self.attached), Room(text=len(text)))

    def _at(self, n: int, room: Room) -> ChosenForm | None:
        if (n, room) not in self._made:
            form = self.steps[n](room)
            self._made[n, room] = None if form is None else self._choice(n, form, room)
        return self._made[n, room]

    def _choice(self, n: int, form: Form, room: Room) -> ChosenForm | None:
        taken = taken_by(form.with_file("F"), form.text)
        return ChosenForm(self.render.id, n, form, taken) if room.holds(taken) else None
