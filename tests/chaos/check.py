"""What must be true after a storm: held against the log, the ledger, what readers saw, and what the servers say."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from tests.chaos.records import ENDS, Fact
from tests.chaos.talk import Talk
from tests.chaos.tools import Execution


def faults(talk: Talk, facts: Sequence[Fact], executions: Sequence[Execution]) -> Iterator[str]:
    """Give everything that is wrong with *talk*, whose whole log is *facts*."""
    if talk.fault is not None:
        yield f"its writer or reader: {talk.fault}"
    if (seqs := [fact.seq for fact in facts]) != list(range(1, len(facts) + 1)):
        yield f"its seqs have gaps: {seqs}"
    yield from _messages(talk, facts)
    yield from _stops(talk, facts)
    yield from _taken(talk, facts)
    yield from _runs(facts)
    yield from _writes(facts, executions)
    yield from _answers(talk, facts)
    yield from _read(talk, facts)


def _messages(talk: Talk, facts: Sequence[Fact]) -> Iterator[str]:
    """Hold that every message that was taken in is there once, in order, and that its runs begin in that order."""
    got = [(fact.data["message"], fact.seq, fact.run) for fact in facts if fact.type == "message.received"]
    sent = [(receipt.message, receipt.seq, receipt.run) for receipt in talk.receipts]
    if got != sent:
        yield f"messages in the log {got} are not those that were taken in {sent}"
    place = {receipt.run: receipt.seq for receipt in talk.receipts if not receipt.steered}
    place |= {fact.run: min(fact.data["inputs"]) for fact in _of(facts, "run.queued") if fact.data.get("inputs")}
    for what, kinds in (("were queued", {"run.queued"}), ("ended", ENDS)):
        runs = [fact.run for fact in facts if fact.type in kinds]
        if Counter(runs) != Counter(place.keys()):
            yield f"runs {what} as {runs}, not one for each of {list(place)}"
    begun = [fact.run for fact in _of(facts, "run.started")]
    completed = {fact.run for fact in _of(facts, "run.completed")}
    if begun != sorted({*begun, *completed}, key=lambda run: place.get(run, 0)):
        yield f"runs began as {begun}"


def _stops(talk: Talk, facts: Sequence[Fact]) -> Iterator[str]:
    """Hold that a run which was stopped in time ends as cancelled, and every other one as completed."""
    stopped = {fact.run for fact in _of(facts, "run.cancelling")}
    for fact in facts:
        if fact.type in ENDS and fact.type != ("run.cancelled" if fact.run in stopped else "run.completed"):
            yield f"{fact.run} was {'' if fact.run in stopped else 'not '}stopped: {fact}"
    for run, stop in talk.stops.items():
        if stop.status != "completed" and run not in stopped:
            yield f"{run} was {stop.status} when it was stopped, and the stop had no effect"


def _taken(talk: Talk, facts: Sequence[Fact]) -> Iterator[str]:
    """Hold that one run takes each message, its own or, of one that was steered, any; of a stopped one maybe none."""
    stopped = {fact.run for fact in _of(facts, "run.cancelled")}
    takers: dict[int, list[str | None]] = defaultdict(list)
    for fact in _of(facts, "step.started"):
        for seq in fact.data["takes"]:
            takers[seq].append(fact.run)
    for receipt in talk.receipts:
        found = takers[receipt.seq]
        may_be_left = not receipt.steered and receipt.run in stopped and not found
        if not may_be_left and (len(found) != 1 or not (receipt.steered or found == [receipt.run])):
            yield f"{receipt} was taken by {found}"


def _runs(facts: Sequence[Fact]) -> Iterator[str]:
    """Hold that epochs rise, that one run works at a time, and that nothing of a run follows its end."""
    epochs: dict[str, int] = {}
    over: set[str] = set()
    for fact in facts:
        if fact.run is None:
            continue
        if fact.run in over:
            yield f"after the end of its run: {fact}"
        if fact.type in {"run.started", "run.resumed"}:
            if fact.data["epoch"] <= epochs.get(fact.run, 0):
                yield f"an epoch that does not rise: {fact}"
            epochs[fact.run] = fact.data["epoch"]
            if at_work := set(epochs) - over - {fact.run}:
                yield f"begins while {at_work} is at work: {fact}"
        if fact.type in ENDS:
            over.add(fact.run)


def _writes(facts: Sequence[Fact], executions: Sequence[Execution]) -> Iterator[str]:
    """Hold that each call has one end, that no write was executed twice, and that each execution is reported.

    Of a run that was stopped a call may be cancelled, if nothing was written, or have an unknown outcome.
    """
    stopped = {fact.run for fact in _of(facts, "run.cancelled")}
    outcomes: dict[str, list[str]] = defaultdict(list)
    for fact in _of(facts, "tool.completed"):
        outcomes[fact.data["call"]].append(fact.data["outcome"])
    executed = Counter(each.call for each in executions)
    for asked in _of(facts, "tool.requested"):
        call, name = asked.data["call"], asked.data["name"]
        found, times = outcomes[call], executed[call]
        fits = {
            "look": found == ["done"],
            "pay": found == ["done"] and times >= 1,
            "note": (found == ["done"] and times == 1) or (found == ["unknown"] and times <= 1),
        }[name]
        if asked.run in stopped:
            fits |= (found == ["cancelled"] and times == 0) or (found == ["unknown"] and name == "pay")
        if not fits:
            yield f"{name} {call} was executed {times} times and ended as {found}: {asked}"


def _answers(talk: Talk, facts: Sequence[Fact]) -> Iterator[str]:
    """Hold that each run answers what it took last, and repeats how the calls ended that it made for that."""
    asked = {receipt.seq: receipt.question for receipt in talk.receipts}
    for end in _of(facts, "run.completed"):
        question, results, text = None, list[str](), ""
        for fact in facts:
            if fact.run != end.run:
                continue
            if fact.type == "step.started":
                for seq in fact.data["takes"]:
                    question, results = asked.get(seq, question), []
            elif fact.type == "tool.completed":
                results += [f"[{part['text']}]" for part in fact.data["parts"]]
            elif fact.type == "message.completed":
                text = "".join(part["text"] for part in fact.data["parts"] if part["type"] == "text")
        if question is None:
            continue  # another check reports a run without a question
        want = " ".join((*question.name, *results, *(f"w{n}" for n in range(question.words))))
        if Counter(text.split()) != Counter(want.split()) or text.split()[:2] != list(question.name):
            yield f"{end.run} was to be answered by {want!r}, not by {text!r}"


def _read(talk: Talk, facts: Sequence[Fact]) -> Iterator[str]:
    """Hold that the reader has every fact, and every answer whole and once."""
    if [frame.seq for frame in talk.seen] != [fact.seq for fact in facts]:
        yield f"the reader saw facts up to {talk.seen.seq} of {len(facts)}"
    shown = {name: message.text for name, message in talk.seen.messages.items() if message.done}
    if shown != (kept := dict(texts(facts))):
        yield f"the reader shows {_differ(shown, kept)}"
    if unfinished := [name for name, message in talk.seen.messages.items() if not message.done]:
        yield f"the reader shows these as unfinished: {unfinished}"


def texts(facts: Sequence[Fact]) -> Iterator[tuple[str, str]]:
    """Give id and text of each answer in *facts*."""
    for fact in facts:
        if fact.type == "message.completed":
            parts = fact.data["parts"]
            yield fact.data["message"], "".join(part["text"] for part in parts if part["type"] == "text")


def listed(items: Sequence[Mapping], facts: Sequence[Fact]) -> Iterator[str]:
    """Hold a server's list of the messages of a session against its log."""
    shown = {
        item["id"]: "".join(part["text"] for part in item["parts"] if part["type"] == "text")
        for item in items
        if item["role"] == "assistant"
    }
    if len(shown) != sum(item["role"] == "assistant" for item in items):
        yield "the server lists an answer twice"
    if shown != (kept := dict(texts(facts))):
        yield f"the server lists {_differ(shown, kept)}"


def _of(facts: Sequence[Fact], kind: str) -> Iterator[Fact]:
    return (fact for fact in facts if fact.type == kind)


def _differ(found: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    return "; ".join(
        f"{name}: {found.get(name)!r}, not {wanted.get(name)!r}"
        for name in {**found, **wanted}
        if found.get(name) != wanted.get(name)
    )
