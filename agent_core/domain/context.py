"""The facts about what a model reads beside messages, and about its prompt cache; a part of the union in `events`."""

from typing import ClassVar, Literal

from agent_core.domain.decisions import EventBody
from agent_core.domain.messages import Usage

ContextKind = Literal["clock", "thread", "memory", "knowledge", "tools", "note"]
CompactionKind = Literal["prune", "summary", "cut"]
MissCause = Literal["expired", "prefix", "tools", "system", "model", "evicted", "unknown"]


class SnapshotFrozen(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """From now on the prompt of the session begins with the snapshot *hash*."""

    type: ClassVar[str] = "snapshot.frozen"
    hash: str
    reason: str


class ContextAdded(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """A note for the model, which a step takes; *by* is its context source, *attached*: of the message that follows."""

    type: ClassVar[str] = "context.added"
    source: ContextKind
    text: str
    by: str | None = None
    attached: bool = False


class ContextCompacted(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """Older messages take less room in the window from now on; the log keeps them. Token counts are estimates.

    `cut`: the window begins at `from_seq`. `summary`: it begins with *summary*, which replaces all before `from_seq`.
    Of what a `cut` or `summary` left out, the messages that the step at `kept_seq` took stay: a run is at work on them.
    `prune`: the results of tools before `from_seq` are placeholders. *usage* and *cost* are those of the call of
    *model* that wrote the summary.
    """

    type: ClassVar[str] = "context.compacted"
    kind: CompactionKind
    from_seq: int
    tokens_before: int | None
    tokens_after: int | None
    kept_seq: int | None = None
    summary: str | None = None
    model: str | None = None
    usage: Usage | None = None
    cost: str | None = None
    uncached_cost: str | None = None

    @property
    def window_seq(self) -> int:
        """Return the seq from which on the window is built of facts after a `cut` or a `summary`."""
        return self.from_seq if self.kept_seq is None else min(self.from_seq, self.kept_seq)


class ContentLeftOut(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """A model's provider refused what entered the window from `from_seq` to `to_seq`: a note is in its place now.

    With *files*, by their ids, those alone are left out; *names* are of those that a person sent. *code* is that of the
    failed step, or `refused`.
    """

    type: ClassVar[str] = "content.left_out"
    from_seq: int
    to_seq: int
    code: str
    files: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


class CompactionFailed(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """No summary was made: the call of *model* failed as *code*, or answered with none; the window is as it was."""

    type: ClassVar[str] = "compaction.failed"
    model: str
    code: str
    message: str
    usage: Usage | None = None
    cost: str | None = None
    uncached_cost: str | None = None


class ToolsUnavailable(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """The agent has no tools of an MCP *server* now; *message* says why. Operators see it, models do not."""

    type: ClassVar[str] = "tools.unavailable"
    server: str
    message: str


class CacheMissed(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """Step *n* read fewer tokens from the prompt cache than it *expected*; *cause* is why, as far as it is known."""

    type: ClassVar[str] = "cache.missed"
    n: int
    expected: int
    read: int
    cause: MissCause
