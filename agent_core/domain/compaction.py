"""How full a window is and where it can be made shorter: what strategies decide compactions on."""

import msgspec


class Tail(msgspec.Struct, frozen=True):
    """The newest *entries* of a window and the *tokens* that they take, or that leaving the others out frees."""

    entries: int
    tokens: int


class WindowFill(msgspec.Struct, frozen=True, kw_only=True):
    """How full a window is; all tokens are estimates, see `context.estimates`.

    *tokens* has the next prompt; of them *prefix* are the snapshot's and *taken* those of what the next step consumes.
    Beyond *limit* a prompt does not fit the model, beyond *threshold* a compaction pays or is due; None: unknown.
    *head* is 1 if the window begins with a summary, *summary* the tokens that the next one may take. *tails* begin
    where a person spoke, the newest first; *steps* where a step of the newest run began, with the messages of people
    that it answers, the longest first. *prune* says what placeholders for the results before the oldest tail free,
    *own* the same for all but the newest results, wherever they are, and *unread* for all with those of the newest
    step, which no call has had. Nothing of it is known below the threshold.
    *estimated* is *tokens* without the margin that an uncertain estimate may have. *failures* counts the summaries of
    the session in a row that could not be made; *timed_out*: one was not written in time, a short while ago.
    """

    tokens: int
    estimated: int | None = None
    failures: int = 0
    timed_out: bool = False
    prefix: int = 0
    taken: int = 0
    limit: int | None = None
    threshold: int | None = None
    head: int = 0
    summary: int = 0
    tails: tuple[Tail, ...] = ()
    steps: tuple[Tail, ...] = ()
    prune: Tail | None = None
    own: tuple[Tail, ...] = ()
    unread: Tail | None = None

    @property
    def is_due(self) -> bool:
        """Return whether the next prompt is beyond the threshold."""
        return self.threshold is not None and self.tokens > self.threshold
