"""Edits: what the model learns about a call that ran with other arguments than it gave. Pure."""

from collections.abc import Collection, Iterable, Sequence

import msgspec

from agent_core import events as e
from agent_core.agent.entries import Encode, WindowEntry, in_window, left_out, media_of, pruned, tokens_of, unloaded
from agent_core.agent.frames import Frames
from agent_core.agent.history import PromptHistory
from agent_core.events import ApprovalDecided, CompactionKind, Fact, FactBody, HookRuled
from agent_core.messages import (
    CONTENT_REFUSED,
    FILE_REFUSED,
    REFUSALS,
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
    legible,
    used_in,
)

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
