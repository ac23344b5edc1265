"""The prompt history: what the log tells of a session's model calls, for cache marks, estimates and refreezes. Pure."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from agent_core import events as e
from agent_core.agent.entries import (
    Encode,
    WindowEntry,
    in_window,
    left_out,
    media_of,
    pruned,
    tokens_of,
    tokens_of_prefix,
    unloaded,
)
from agent_core.agent.frames import Frames
from agent_core.agents import Snapshot, ToolSpec
from agent_core.controls import Caching, PromptCall, changes
from agent_core.events import ApprovalDecided, CacheMissed, CompactionKind, Fact, FactBody, HookRuled, MissCause
from agent_core.messages import (
    CONTENT_REFUSED,
    FILE_REFUSED,
    REFUSALS,
    UNKNOWN_USAGE,
    Actor,
    CallOutcome,
    File,
    Message,
    Native,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    legible,
    used_in,
)

REST = 86_400_000
"""Milliseconds after which a summary that could not be made is no reason any more not to ask for one."""
_OF_A_RUN = frozenset({"run", "repair"})
"""Why a prompt is frozen in which the session's list of tools stays."""
_NO_FAULT = frozenset({"cancelled", "outdated"})
"""Codes of a `compaction.failed` that say nothing of the summariser; `outdated` is in old logs alone."""


class PromptHistory(msgspec.Struct, frozen=True, kw_only=True):
    """A fold of a session's facts, its child runs left out.

    *last* is the newest call that was answered, *newest_call* the newest one, its usage unknown. *rewritten* is why the
    prompt no longer begins as *last* did: its `compaction`, which is meant to lose the messages, else the first of the
    `snapshot` (also one frozen again to leave out reasoning) and a paused `answer` that was given up; None while it
    does. *refreezable*: the window was compacted since the snapshot was frozen and since a run began. *failures* counts
    the summaries in a row that could not be made, until the prompt is rewritten or a day has passed since the last, at
    *failed*. *newest* is the time of the newest fact. *tools_note* is the newest note on the agent's tools that the
    window has, *unavailable* the servers that were reported, both since their list was frozen. *clocked* is the time of
    the newest note of the clock that the window has, 0 for none.
    """

    last: PromptCall | None = None
    newest_call: PromptCall | None = None
    rewritten: str | None = None
    refreezable: bool = False
    newest: int = 0
    failures: int = 0
    failed: int = 0
    tools_note: str = ""
    unavailable: tuple[str, ...] = ()
    clocked: int = 0
    _is_open: bool = False
    _rewritten: str | None = None
    _controls: dict[str, object] = {}

    def after(self, fact: Fact, entries: int) -> "PromptHistory":
        """Return the history after *fact*, with which the window has so many *entries*."""
        return self.with_body(fact.body, fact.time, entries)

    def with_body(self, body: FactBody, time: int, entries: int) -> "PromptHistory":
        """Return the history after a fact with this *body*, in the log or not yet."""
        seen = replace(self, failures=0) if self.failures and time - self.failed >= REST else self
        return seen._after(body, time, entries)  # noqa: SLF001 - it is of this class

    def _after(self, body: FactBody, time: int, entries: int) -> "PromptHistory":
        match body:
            case e.StepStarted():
                return self._started(body, time, entries)
            case e.StepCompleted() | e.StepFailed():
                return self._answered(body, time)
            case e.RunStarted():
                return replace(self, refreezable=False, newest=time)
            case e.ContextCompacted():
                is_kept = body.kind == "prune"
                note, clocked = (self.tools_note, self.clocked) if is_kept else ("", 0)
                seen = replace(self.rewriting("compaction"), tools_note=note, clocked=clocked)
                return replace(seen, refreezable=True, failures=0, newest=time)
            case e.ContentLeftOut():
                return replace(self.rewriting("compaction"), newest=time)
            case e.SnapshotFrozen():
                seen = self if body.reason in _OF_A_RUN else replace(self, tools_note="", unavailable=())
                return replace(seen.rewriting("snapshot"), failures=0, refreezable=False, newest=time)
            case e.ContextAdded(source="tools", text=text):
                return replace(self, tools_note=text, newest=time)
            case e.ContextAdded(source="clock"):
                return replace(self, clocked=time, newest=time)
            case e.ToolsUnavailable(server=server):
                return replace(self, unavailable=(*self.unavailable, server), newest=time)
            case e.CompactionFailed() if body.code not in _NO_FAULT:
                return replace(self, failures=self.failures + 1, failed=time, newest=time)
            case _:
                return replace(self, newest=time)

    @property
    def previous(self) -> int:
        """Return how many of the window's first entries the last call had too; 0 when they are no longer the same."""
        return self.last.entries if self.last and self.rewritten is None else 0

    def rewriting(self, why: str) -> "PromptHistory":
        """Return the history after what earlier calls had was changed for this reason, see `rewritten`."""
        if why == "compaction":
            return replace(self, rewritten=why, _rewritten=why)
        return replace(self, rewritten=self.rewritten or why, _rewritten=self._rewritten or why)

    def _started(self, body: e.StepStarted, time: int, entries: int) -> "PromptHistory":
        controls = self._controls if body.controls is None else body.controls
        call = PromptCall(
            time=time,
            model=str(controls.get("model") or ""),
            snapshot=body.snapshot,
            entries=entries,
            controls=controls,
            usage=UNKNOWN_USAGE,
        )
        return replace(
            self,
            newest=time,
            newest_call=call,
            _is_open=True,
            _rewritten=None,
            _controls=controls,
        )

    def _answered(self, body: e.StepCompleted | e.StepFailed, time: int) -> "PromptHistory":
        if not self._is_open or self.newest_call is None or body.usage is None:
            return replace(self, newest=time, _is_open=False)
        last = replace(self.newest_call, usage=body.usage)
        return replace(self, last=last, rewritten=self._rewritten, newest=time, _is_open=False)


FEW = 16
"""Tokens that a call may read less than expected: vendors leave two to four at the end of a prompt uncached."""
SHARE = 0.02
BEST_EFFORT = 0.5
"""The part of the expected tokens that counts as read where a cache gives no promise, or the count is an estimate."""
STEP = 128
"""Tokens to which a cache with free writes rounds down."""
_BEGINNING = 64
"""Characters of an answer's JSON within which Anthropic names the type of its first block."""
_TEXTS = ("contract", "persona", "instructions", "skills", "memory", "profile")


class CacheMiss(msgspec.Struct, frozen=True):
    """The fact of a miss, and *changed*: names of what differs in the prompt, for the operator; empty if nothing."""

    fact: CacheMissed
    changed: str = ""


def shortfall(
    history: PromptHistory, usage: Usage, caching: Caching, snapshot: Snapshot, messages: Sequence[Message] = ()
) -> tuple[int, int] | None:
    """Return how many tokens a call with *usage* was expected to read, and how many it read; None if that is no miss.

    It is expected to read what the call before it, `history.last`, read and wrote. After a compaction, or where the API
    has left earlier thinking out of *messages*, the window's, it is the *snapshot* alone, whose tokens are an estimate.
    Unknown figures are no miss.
    """
    if history.last is None or usage.cache_read is None:
        return None
    cached = _cached(history.last, caching)
    if cached is None:
        return None
    is_rewritten = history.rewritten == "compaction" or _is_stripped(history.last, caching, messages)
    is_exact = caching.exact and not is_rewritten
    expected = min(cached, _roughly(snapshot)) if is_rewritten else cached
    enough = expected * (1 - SHARE) - FEW if is_exact else expected * BEST_EFFORT
    if expected < caching.least or usage.cache_read >= enough:
        return None
    return expected, usage.cache_read


def missed(
    n: int,
    short: tuple[int, int],
    history: PromptHistory,
    sent: tuple[Any, Any],
    snapshots: tuple[Snapshot, Snapshot],
    caching: Caching,
    messages: Sequence[Message] = (),
) -> CacheMiss | None:
    """Return why step *n*, `history.newest_call`, read less than it was expected to (*short*, see `shortfall`).

    *snapshots* are those of the call before it and of this one; *sent* the tool choices that the API got; *messages*
    the window's. A snapshot that was frozen again after a compaction loses its part on purpose: that is no miss.
    """
    cause, changed = _cause(history, sent, snapshots, caching, messages)
    if history.rewritten == "compaction" and cause in ("tools", "system"):
        return None
    return CacheMiss(CacheMissed(n=n, expected=short[0], read=short[1], cause=cause), changed)


def _cause(
    history: PromptHistory,
    sent: tuple[Any, Any],
    snapshots: tuple[Snapshot, Snapshot],
    caching: Caching,
    messages: Sequence[Message],
) -> tuple[MissCause, str]:
    """Return the cause and which part changed; what has expired was lost whatever else changed."""
    before, now = history.last, history.newest_call
    assert before is not None
    assert now is not None
    if now.time - before.time > _life(before.usage, caching):
        return "expired", ""
    for change in changes(before, now, sent, caching)[:1]:
        match change.name:
            case "model":
                return "model", f"{change.before} -> {change.now}"
            case "snapshot":
                return differing(*snapshots)
            case name:
                return "prefix", name
    if history.rewritten in ("snapshot", "answer"):
        return "prefix", "reasoning" if history.rewritten == "snapshot" else "a paused answer"
    if history.rewritten is None and (added := _added(before, now, caching, messages)):
        return "prefix", added
    if before.controls.get("tool_choice") != now.controls.get("tool_choice"):
        return "unknown", "tool_choice"  # it may have been sent after all, see `Ask.sends`
    return "evicted", ""


def _added(before: PromptCall, now: PromptCall, caching: Caching, messages: Sequence[Message]) -> str:
    """Return what was added since the call *before* that an API caches no messages without; empty for nothing."""
    if caching.vendor != "anthropic":
        return ""
    if any(_has_image(message.parts) for message in messages[before.entries : now.entries]):
        return "an image"
    return "thinking" if _thinks(before, caching, messages) != _thinks(now, caching, messages) else ""


def _has_image(parts: Sequence[Part]) -> bool:
    return any(
        part.mime.startswith("image/") if isinstance(part, File) else _has_image(part.parts)
        for part in parts
        if isinstance(part, File | ToolResult)
    )


def _is_stripped(before: PromptCall, caching: Caching, messages: Sequence[Message]) -> bool:
    """Return whether the API has left out thinking that the call *before* was sent, or answered with."""
    if not caching.strips or not caching.thinking(before.controls):
        return False
    return any(message.role == "user" for message in messages[before.entries :])


def _thinks(call: PromptCall, caching: Caching, messages: Sequence[Message]) -> bool:
    """Return whether *call* asked for thinking in tokens: in a tool loop only if the loop's first answer begins so."""
    first = None
    for message in reversed(messages[: call.entries]):
        if message.role == "user":
            break
        if message.role == "assistant":
            first = message
    own = first.native.pieces if first and first.native and first.native.model == call.model else ()
    # Also thinking that was redacted or has no text, which is no part of the answer.
    has_begun = first is None or 'thinking"' in str(own[:1])[:_BEGINNING]
    return has_begun and caching.thinking(call.controls) > 0


def differing(before: Snapshot, now: Snapshot) -> tuple[MissCause, str]:
    """Return which part of the snapshot changed, tools first, and the names of what is new, gone or other in it."""
    old, new = ({tool.name: _seen(tool) for tool in each.tools} for each in (before, now))
    if old != new:
        signs = {name: "+" if name not in old else "-" if name not in new else "~" for name in sorted({*old, *new})}
        return "tools", " ".join(f"{sign}{name}" for name, sign in signs.items() if old.get(name) != new.get(name))
    names = [name for name in _TEXTS if getattr(before, name) != getattr(now, name)]
    return ("system", " ".join(names)) if names else ("evicted", "")


def _seen(tool: ToolSpec) -> tuple[str, object]:
    """Return what a model sees of *tool* beside its name."""
    return tool.description, tool.parameters


def _roughly(snapshot: Snapshot) -> int:
    """Estimate the tokens of *snapshot*, rather too few."""
    return round(tokens_of_prefix(snapshot) * 0.7)


def _cached(before: PromptCall, caching: Caching) -> int | None:
    """Return the tokens of the call *before* that the cache keeps, None if that is not known."""
    usage = before.usage
    if not caching.exact:
        return None if before.prompt is None else before.prompt // STEP * STEP
    if usage.cache_read is None or usage.cache_write_short is None:
        return None
    return usage.cache_read + usage.cache_write_short + (usage.cache_write_long or 0)


def _life(usage: Usage, caching: Caching) -> int:
    """Return the milliseconds for which the newest part of a prompt is kept: what was written last tells."""
    is_long = bool(usage.cache_write_long) and not usage.cache_write_short
    return 1000 * (caching.long_s if is_long else caching.short_s)


MAX_ARGUMENTS = 10_000
"""Characters of arguments that are repeated to the model."""
_NOT_RUN = frozenset({"denied", "cancelled"})


class Edit(msgspec.Struct, frozen=True):
    """Who has changed the arguments of a call: people, by their *names*, to *arguments*; or a rule.

    What a rule puts into arguments may be a secret of the operator, so they are not repeated once one has changed them.
    """

    names: tuple[str, ...] = ()
    arguments: bytes = b""
    by_rule: bool = False

    def note(self, outcome: CallOutcome) -> str | None:
        """Return what the model reads before the call's result; None when no person changed it, or it never ran."""
        if not self.names or outcome in _NOT_RUN:
            return None
        who = " and ".join(self.names)
        if self.by_rule:
            return f"ran with other arguments, changed by {who} and by a rule"
        text = self.arguments.decode()
        shown = text if len(text) <= MAX_ARGUMENTS else f"{text[:MAX_ARGUMENTS]}…"
        return f"ran with arguments {shown}, changed by {who}"


def edited(before: Edit, body: HookRuled | ApprovalDecided) -> Edit:
    """Return the edit after a rule's change, of the call or of its result, or people's approval."""
    if isinstance(body, HookRuled):
        return msgspec.structs.replace(before, by_rule=before.by_rule or body.event == "PreToolUse")
    if not body.edited:
        return before
    names = tuple(dict.fromkeys((*before.names, _name(body.by))))
    return msgspec.structs.replace(before, names=names, arguments=msgspec.json.encode(body.arguments))


def _name(actor: Actor | None) -> str:
    """Return what the model calls *actor*; the name of an API key is the operator's."""
    if actor is None or actor.kind == "service":
        return "an operator"
    return legible(actor.name) or "a person"


class Window:
    """The messages of the next step, folded from a session's facts, oldest first.

    A message, correction or note enters where a step consumes it, an answer where it was completed, the results of a
    step's calls together once the last has come. *seq* is the newest fact folded in. Child runs are left out.
    *history* is what the facts tell of the model calls. *snapshot* is the prompt prefix in force: a window that is
    rebuilt from its newest part gets it as *prefix*. *marker* is the session's own, see `Frames`.
    """

    def __init__(self, encode: Encode, *, prefix: str = "", marker: str = "") -> None:
        self.seq = 0
        self.snapshot = prefix
        self.entries: list[WindowEntry] = []
        self.history = PromptHistory()
        self._encode = encode
        self.frames = Frames(marker)
        self._pending: dict[int, Message] = {}
        self._received: set[int] = set()
        self._corrects: dict[int, int] = {}
        self._speakers: dict[int, Text] = {}
        self._edits: dict[str, Edit] = {}
        self.answers: set[str] = set()
        self._calls: tuple[str, ...] = ()
        self._results: dict[str, ToolResult] = {}
        self._native: Native | None = None
        self._outputs: dict[str, ToolResult | None] = {}
        # The newest answer, the first refusal since, the first of what was left out whole for it, and what was there.
        self._answered, self._refused, self._tried = 0, 0, 0
        self._replaced: Sequence[WindowEntry] = ()

    def apply(self, facts: Iterable[Fact]) -> None:
        """Fold *facts* in; those that were folded in before are skipped."""
        for fact in facts:
            if fact.seq > self.seq:
                if fact.parent_run is None:
                    self._fold(fact.seq, fact.body)
                    self.history = self.history.after(fact, len(self.entries))
                self.seq = fact.seq

    def recall(self, facts: Iterable[Fact]) -> None:
        """Note older messages that a later step consumes; for a window that is rebuilt from its newest part."""
        for fact in facts:
            self._note(fact.seq, fact.body)

    def preview(self, held: Iterable[FactBody]) -> "Window":
        """Return a copy with *held* folded in, as if they were written now; this window stays as it is."""
        copy = Window(self._encode, marker=self.frames.marker)
        copy.seq, copy.snapshot, copy.entries = self.seq, self.snapshot, list(self.entries)
        copy.history, copy.frames = self.history, self.frames
        copy._pending, copy.answers, copy._received = dict(self._pending), set(self.answers), set(self._received)
        copy._corrects, copy._speakers, copy._edits = dict(self._corrects), dict(self._speakers), dict(self._edits)
        copy._calls, copy._results, copy._native = self._calls, dict(self._results), self._native
        copy._outputs = dict(self._outputs)
        copy._answered, copy._refused = self._answered, self._refused
        copy._tried, copy._replaced = self._tried, self._replaced
        for body in held:
            copy._fold(self.seq, body)
            copy.history = copy.history.with_body(body, copy.history.newest, len(copy.entries))
        return copy

    def recode(self, encode: Encode) -> None:
        """Encode for another API from now on: every message is encoded again when next asked for."""
        if encode != self._encode:
            self._encode = encode
            self.entries = [entry.changed(entry.message, encode=encode) for entry in self.entries]

    @property
    def head(self) -> int:
        """Return how many entries are a summary of what was before: one, the first, or none."""
        return int(bool(self.entries) and self.entries[0].summary)

    @property
    def border(self) -> int:
        """Return how many entries lie before the newest place where the window may be cut; a summary alone is none."""
        return next((i for i in range(len(self.entries) - 1, self.head, -1) if self.entries[i].border), 0)

    def pending(self, seqs: Iterable[int]) -> int:
        """Return an estimate of the tokens of the messages *seqs*, which no step has taken yet."""
        return sum(tokens_of(self._pending[seq]) for seq in seqs if seq in self._pending)

    @property
    def newest_question(self) -> int | None:
        """Return the place of the newest messages of people, None without any."""
        return next((i for i in range(len(self.entries) - 1, -1, -1) if self.entries[i].border), None)

    @property
    def steps(self) -> Sequence[int]:
        """Return the places after `newest_question` where a later step of the run begins: after all results of one."""
        if self.newest_question is None:
            return ()
        places = range(self.newest_question + 2, len(self.entries) + 1)
        return [
            i
            for i in places
            if self.entries[i - 1].message.role == "tool"
            and (i == len(self.entries) or self.entries[i].message.role == "assistant")
        ]

    def start_of(self, keep: int, *, whole: bool = False, inside: bool = False) -> int:
        """Return the place of the border from which on at most *keep* entries are kept, or of the newest border.

        With *whole* a user message comes next, so that the end of the window is a border too. With *inside* the borders
        are those of `steps`.
        """
        if inside:
            return next(place for place in self.steps if place >= len(self.entries) - keep)
        first = max(len(self.entries) - keep, 1)
        newest = len(self.entries) if whole else self.border
        return next((i for i in range(first, len(self.entries)) if self.entries[i].border), newest)

    def seq_at(self, place: int) -> int:
        """Return the seq from which on the entries from *place* on were made."""
        return self.entries[place].seq if place < len(self.entries) else self.seq + 1

    def cut(self, keep: int, *, whole: bool = False, inside: bool = False) -> e.ContextCompacted:
        """Return the fact that cuts the window at `start_of` *keep*, see `compacted`."""
        start = self.start_of(keep, whole=whole, inside=inside)
        return self.compacted("cut", self.seq_at(start), kept_seq=self.kept_seq if inside else None)

    @property
    def kept_seq(self) -> int | None:
        """Return the seq of the step that took the newest messages of people."""
        return None if self.newest_question is None else self.entries[self.newest_question].seq

    def compacted(self, kind: CompactionKind, from_seq: int, *, kept_seq: int | None = None) -> e.ContextCompacted:
        """Return the fact that compacts the window from *from_seq* on, without a summary."""
        rest = [entry for entry in self.entries if entry.seq >= from_seq or entry.seq == kept_seq]
        left = self._pruned(from_seq) if kind == "prune" else rest
        before, after = (sum(entry.tokens for entry in each) for each in (self.entries, left))
        return e.ContextCompacted(
            kind=kind, from_seq=from_seq, tokens_before=before, tokens_after=after, kept_seq=kept_seq
        )

    def leave_out(self, code: str, named: Collection[str] = ()) -> e.ContentLeftOut | None:
        """Return the fact that leaves out what a provider has just refused as *code*, None if nothing is to blame.

        That are the pictures and pages that it *named*, else those of the newest run, then all; where content was
        refused it is the newest message. Any other request that is refused again is so for what came since the last
        answer, but for what the newest step took: that may be a new question. If that does not help, and an earlier
        run was refused too, it is all that came before the newest message.
        """
        entries = [entry for entry in self.entries if _says(entry.message)]
        media = [(file, entry.seq) for entry in entries for file in media_of(entry.message.parts)]
        if named:
            media = [(file, seq) for file, seq in media if file in named]
        elif code == FILE_REFUSED:
            media = [(file, seq) for file, seq in media if seq >= (self.kept_seq or 0)] or media
        else:
            media = []
        if media:
            files, seqs = zip(*media, strict=True)
            sent = [
                part for x in entries if x.message.role == "user" for part in x.message.parts if isinstance(part, File)
            ]
            names = dict.fromkeys(part.name for part in sent if part.file in files)
            return e.ContentLeftOut(
                from_seq=seqs[0], to_seq=seqs[-1], code=code, files=tuple(dict.fromkeys(files)), names=tuple(names)
            )
        newest = self.entries[-1].seq
        older = [x for x in entries if x.seq < newest] if 0 < self._refused < newest else []
        since = [x for x in (entries if code == CONTENT_REFUSED else older) if x.seq > self._answered and not x.summary]
        for each in (since[-1:] if code == CONTENT_REFUSED else since, older if code != "refused" else []):
            if each and (not self._tried or each[0].seq < self._tried):
                return e.ContentLeftOut(from_seq=each[0].seq, to_seq=each[-1].seq, code=code)
        return None

    def _fold(self, seq: int, body: FactBody) -> None:
        match body:
            case e.StepStarted():
                self.answers.add(body.message)
                self._take(seq, body.takes)
            case e.MessageCompleted() if body.message in self.answers:
                self.answers.discard(body.message)
                self._answer(seq, body)
                self._note_end(seq, body)
            case e.StepFailed(code=code) if code in REFUSALS:
                self._refuse(seq)
            case e.ContentLeftOut():
                self._forget_reasoning()
                self._leave_out(body)
            case e.ToolCompleted() if body.call in self._calls:
                self._result(seq, body)
            case e.ToolCompleted() if body.call in self._outputs:
                self._outputs[body.call] = ToolResult(body.call, body.outcome, body.parts, body.untrusted)
            case e.HookRuled(call=str(call), ruling="modify") | e.ApprovalDecided(call=call, status="approved"):
                if call in self._calls:
                    self._edits[call] = edited(self._edits.get(call, Edit()), body)
            case e.ContextCompacted():
                self._replaced = ()
                self.entries = self._compacted(body)
                self._forget_reasoning()
            case e.SnapshotFrozen():
                self.snapshot, self._replaced = body.hash, ()
                self._forget_reasoning()
                self.entries = [x if (m := unloaded(x.message)) is x.message else x.changed(m) for x in self.entries]
            case _:
                self._note(seq, body)

    def _note(self, seq: int, body: FactBody) -> None:
        match body:
            case e.MessageReceived():
                self._pending[seq] = Message("user", self.frames.of_others(body.parts))
                self._outputs |= dict.fromkeys(part.call for part in used_in(body.parts))
                self._received.add(seq)
                if body.named:
                    self._speakers[seq] = Text(self.frames.speaker(body.actor))
            case e.MessageCorrected() if body.parts:
                self._pending[seq] = Message("user", self.frames.of_others(body.parts))
                self._corrects[seq] = body.corrects
                if body.actor is not None:
                    self._speakers[seq] = Text(self.frames.speaker(body.actor))
            case e.ContextAdded():
                self._pending[seq] = Message("user", (Text(self.frames.context(body.source, body.text)),))
            case e.MessageCompleted():
                self._pending[seq] = Message(body.role, self.frames.of_others(body.parts))
            case _:
                return

    def _take(self, seq: int, takes: tuple[int, ...]) -> None:
        taken = {t: self.frames.with_outputs(self._pending.pop(t), self._outputs) for t in takes if t in self._pending}
        for t in [t for t in taken if t in self._corrects]:
            message, of = taken[t], self._corrects.pop(t)
            if of in taken:  # the model never saw what it corrects
                taken[of] = message
                del taken[t]
                self._speakers.pop(t, None)
            else:
                taken[t] = Message("user", (Text(self.frames.correction), *message.parts))
        for t in [t for t in taken if t in self._speakers]:
            taken[t] = Message("user", (self._speakers.pop(t), *taken[t].parts))
        may_cut = not self._received.isdisjoint(takes)
        self._received.difference_update(takes)
        for place, message in enumerate(taken.values()):
            self._add(seq, message, border=may_cut and place == 0)

    def _answer(self, seq: int, body: e.MessageCompleted) -> None:
        """Add an answer; of a partial one its text alone, and nothing of one that has only reasoning.

        So too of one that was cut while it continued a paused answer: what the server had open then stays open.
        """
        is_paused = bool(self.entries) and self.entries[-1].paused
        broken = body.partial or (body.stop == "length" and is_paused)
        native = None if broken else body.native
        parts = tuple(p for p in body.parts if isinstance(p, Text) or not broken)
        if native is None:  # its items name parts by their places
            parts = tuple(p for p in parts if not _is_blank(p))
        self._calls = tuple(p.call for p in parts if isinstance(p, ToolCall))
        self._results = {}
        self._native = Native(native.model, calls=native.calls) if native and native.calls else None
        if broken:  # what it continued is not continued
            self._give_up()
        paused = native is not None and body.stop == "continue"
        if paused or any(not isinstance(p, Reasoning) for p in parts):
            self._add(seq, Message("assistant", parts, native), paused=paused)
            if body.partial:
                self._add(seq, Message("user", (Text(self.frames.stopped),)))

    def _result(self, seq: int, body: e.ToolCompleted) -> None:
        note = self._edits.pop(body.call, Edit()).note(body.outcome)
        before = (Text(self.frames.context("note", note)),) if note else ()
        parts = self.frames.untrusted(body.parts) if body.untrusted else self.frames.of_others(body.parts)
        self._results[body.call] = ToolResult(body.call, body.outcome, (*before, *parts), loaded=body.loaded)
        if len(self._results) == len(self._calls):
            self._add(seq, Message("tool", tuple(self._results[call] for call in self._calls), self._native))
            self._calls, self._results, self._native = (), {}, None

    def _add(self, seq: int, message: Message, *, border: bool = False, paused: bool = False) -> None:
        if message.role == "user":
            self._give_up()
        self.entries.append(WindowEntry(seq, message, self._encode, border=border, paused=paused))

    def _give_up(self) -> None:
        """Keep only the text of paused answers at the end: nothing continues them, and their calls have no results.

        One that paused again may hold the results of the one before it: they go together.
        """
        given_up: list[WindowEntry] = []
        while self.entries and self.entries[-1].paused:
            given_up.append(self.entries.pop())
        if given_up and self.history.newest_call and len(self.entries) < self.history.newest_call.entries:
            self.history = self.history.rewriting("answer")
        for entry in reversed(given_up):
            parts = tuple(p for p in entry.message.parts if not isinstance(p, Reasoning) and not _is_blank(p))
            if parts:
                self._add(entry.seq, Message("assistant", parts), border=entry.border)

    def _compacted(self, body: e.ContextCompacted) -> list[WindowEntry]:
        """Return the entries after *body*; a summary's seq is before those that it precedes."""
        if body.kind == "prune":
            return self._pruned(body.from_seq)
        rest = [entry for entry in self.entries if entry.seq >= body.from_seq or entry.seq == body.kept_seq]
        if body.summary is None:
            return rest
        text = in_window(body.summary, repeats=body.kept_seq is not None)
        message = Message("user", (Text(self.frames.context("summary", text)),))
        return [WindowEntry(body.window_seq - 1, message, self._encode, summary=True), *rest]

    def _pruned(self, from_seq: int) -> list[WindowEntry]:
        """Return the entries with placeholders for the large results before *from_seq*; no step has read the last."""
        older = [entry for entry in self.entries if entry.seq < from_seq]
        tools = {part.call: part.name for x in older for part in x.message.parts if isinstance(part, ToolCall)}
        return [
            entry.changed(pruned(entry.message, tools, self.frames, unread=entry is self.entries[-1]))
            if entry.seq < from_seq and entry.prunable
            else entry
            for entry in self.entries
        ]

    def _leave_out(self, body: e.ContentLeftOut) -> None:
        """Put notes in the place of what *body* leaves out."""
        if not body.files:
            self._tried, self._replaced = body.from_seq, self.entries
        places = {i for i, entry in enumerate(self.entries) if body.from_seq <= entry.seq <= body.to_seq}
        self.entries = [
            entry.changed(left_out(entry.message, body.code, self.frames, body.files)) if i in places else entry
            for i, entry in enumerate(self.entries)
        ]

    def _note_end(self, seq: int, body: e.MessageCompleted) -> None:
        if body.stop == "refused":
            self._refuse(seq)
        elif not body.partial:
            self._answered, self._refused, self._tried, self._replaced = seq, 0, 0, ()

    def _refuse(self, seq: int) -> None:
        """Note a refusal: what was left out whole before it was not to blame, and is back."""
        self._refused = self._refused or seq
        if self._replaced:
            back = [
                new.changed(old.message) if new.seq == old.seq and new.message != old.message else new
                for new, old in zip(self.entries, self._replaced, strict=False)
            ]
            self.entries = [*back, *self.entries[len(back) :]]
            self.history = self.history.rewriting("compaction")
        self._tried, self._replaced = 0, ()

    def _forget_reasoning(self) -> None:
        """Drop the reasoning of all earlier answers: newer models refuse it once the prefix has changed."""
        self._native = None
        entries: list[WindowEntry] = []
        for entry in self.entries:
            parts = tuple(p for p in entry.message.parts if not isinstance(p, Reasoning))
            if len(parts) == len(entry.message.parts) and entry.message.native is None:
                entries.append(entry)
            elif parts:
                entries.append(entry.changed(Message(entry.message.role, parts)))
        self.entries = entries


def _says(message: Message) -> bool:
    """Return whether there is more in *message* than thinking and calls."""
    return any(not isinstance(part, Reasoning | ToolCall) for part in message.parts)


def _is_blank(part: Part) -> bool:
    return isinstance(part, Text | Reasoning) and not part.text.strip()
