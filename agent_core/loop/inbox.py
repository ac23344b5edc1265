"""InboxState: what came in for a run and no step has consumed yet."""

from collections.abc import Collection, Iterable

import msgspec
from msgspec.structs import replace


class CarryOver(msgspec.Struct, frozen=True):
    """What a run leaves to the next one, as seqs: *messages* to answer and *notes* to show to the model."""

    messages: tuple[int, ...] = ()
    notes: tuple[int, ...] = ()


NO_CARRY_OVER = CarryOver()


class InboxState(msgspec.Struct, frozen=True):
    """The seqs of facts that wait for a step to consume them, in the order of their arrival.

    *unconsumed* has all of them: messages, corrections and notes. The others are parts of it: *user_messages* were
    written by a person, *notes* need no step of their own, *late_corrections* correct what a step consumed before, and
    *unanswered* are those that the next run must answer if this run ends first; the run's own input is not. In a
    preview, facts that are not yet in the log have negative seqs: `-k` is the k-th from the end. *recalled* are the
    notes that the context sources gave, consumed or not; None until the sources were asked.
    """

    unconsumed: tuple[int, ...] = ()
    user_messages: tuple[int, ...] = ()
    notes: tuple[int, ...] = ()
    late_corrections: tuple[int, ...] = ()
    unanswered: tuple[int, ...] = ()
    recalled: tuple[int, ...] | None = None

    @property
    def needs_step(self) -> bool:
        """Return whether anything unconsumed needs a step of its own."""
        return not set(self.unconsumed) <= set(self.notes)

    @property
    def carry_over(self) -> CarryOver:
        """Return what is left to the next run if this one ends now, without facts that are not in the log yet.

        What the context sources gave is left out too: they are asked again for the next run.
        """
        notes = sorted({*self.notes, *self.late_corrections} - set(self.recalled or ()))
        return CarryOver(tuple(seq for seq in self.unanswered if seq > 0), tuple(seq for seq in notes if seq > 0))

    def with_inputs(self, seqs: tuple[int, ...]) -> "InboxState":
        """Return the inbox with messages that an ended run left to this one."""
        return replace(self, unconsumed=(*self.unconsumed, *seqs), user_messages=(*self.user_messages, *seqs))

    def with_message(self, seq: int, *, steered: bool) -> "InboxState":
        """Return the inbox with a message of a person; a *steered* one joined a run that had begun."""
        return replace(
            self,
            unconsumed=(*self.unconsumed, seq),
            user_messages=(*self.user_messages, seq),
            unanswered=(*self.unanswered, seq) if steered else self.unanswered,
        )

    def with_imported(self, seqs: Iterable[int], *, by_user: Iterable[int]) -> "InboxState":
        """Return the inbox with the messages of an imported history, of which some are *by_user*."""
        return replace(self, unconsumed=(*self.unconsumed, *seqs), user_messages=(*self.user_messages, *by_user))

    def with_note(self, seq: int) -> "InboxState":
        """Return the inbox with a note for the model."""
        return replace(self, unconsumed=(*self.unconsumed, seq), notes=(*self.notes, seq))

    def with_recalled(self, seq: int) -> "InboxState":
        """Return the inbox with a note that a context source gave."""
        return replace(self.with_note(seq), recalled=(*(self.recalled or ()), seq))

    def with_sources_asked(self) -> "InboxState":
        """Return the inbox of a run whose context sources were asked, whether they gave anything or not."""
        return replace(self, recalled=self.recalled or ())

    def with_earlier_notes(self, seqs: tuple[int, ...]) -> "InboxState":
        """Return the inbox with notes from before the run, which come first."""
        return replace(self, unconsumed=(*seqs, *self.unconsumed), notes=(*seqs, *self.notes))

    def corrected(self, seq: int, of: int, *, deleted: bool) -> "InboxState":
        """Return the inbox after the correction at *seq* of the message at *of*.

        A correction of an unconsumed message is consumed with it; that of a consumed one is late. A deletion takes the
        message out; if it was consumed a note informs the model.
        """
        if deleted:
            return self._without({of})
        if of in self.unconsumed:
            unanswered = (*self.unanswered, seq) if of in self.unanswered else self.unanswered
            return replace(self, unconsumed=(*self.unconsumed, seq), unanswered=unanswered)
        return replace(self, unconsumed=(*self.unconsumed, seq), late_corrections=(*self.late_corrections, seq))

    def consumed(self, seqs: Collection[int]) -> "InboxState":
        """Return the inbox after a step consumed *seqs*; everything up to the last of them is removed."""
        if not (self.unconsumed or self.user_messages or self.unanswered):
            return self
        taken = set(seqs)
        places = [index for index, seq in enumerate(self.unconsumed) if seq in taken]
        unconsumed = self.unconsumed[places[-1] + 1 :] if places else self.unconsumed
        left = set(unconsumed)
        return InboxState(
            unconsumed,
            user_messages=_without(self.user_messages, taken),
            notes=tuple(seq for seq in self.notes if seq in left),
            late_corrections=tuple(seq for seq in self.late_corrections if seq in left),
            unanswered=_without(self.unanswered, taken),
            recalled=self.recalled,
        )

    def _without(self, seqs: Collection[int]) -> "InboxState":
        return replace(
            self,
            unconsumed=_without(self.unconsumed, seqs),
            user_messages=_without(self.user_messages, seqs),
            notes=_without(self.notes, seqs),
            late_corrections=_without(self.late_corrections, seqs),
            unanswered=_without(self.unanswered, seqs),
        )


def _without(seqs: tuple[int, ...], gone: Collection[int]) -> tuple[int, ...]:
    return tuple(seq for seq in seqs if seq not in gone)
