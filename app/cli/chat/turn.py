"""Whose turn the keys are while a question is open: those that were meant for a message decide nothing."""

from dataclasses import dataclass

from agent_core import Clock

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
