"""What must be true after a storm: held against the log, the ledger, what readers saw, and what the servers say."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from tests.chaos.records import Fact
from tests.chaos.talk import ENDS, Talk
from tests.chaos.tools import Execution


def faults(talk: Talk, facts: Sequence[Fact], executions: Sequence[Execution]) -> Iterator[str]:
    """Give everything that is wrong with *talk*, whose whole log is *facts*."""
    if talk.fault is not None:
        yield f"its writer or reader: {talk.fault}"
    if (seqs := [fact.seq for fact in facts]) != list(range(1, len(facts) + 1)):
        yield f"its seqs have gaps: {seqs}"
    yield from _messages(talk, facts)
    yield from _runs(facts)
    yield from _writes(facts, executions)
    yield from _told(talk, facts)
    yield from _read(talk, facts)


def _messages(talk: Talk, facts: Sequence[Fact]) -> Iterator[str]:
    """Hold that every message that was taken in is there once, in order, with one completed run each, in order."""
    got = [(fact.data["message"], fact.seq, fact.run) for fact in facts if fact.type == "message.received"]
    sent = [(receipt.message, receipt.seq, receipt.run) for receipt in talk.receipts]
    if got != sent:
        yield f"messages in the log {got} are not those that were taken in {sent}"
    ended = [(fact.run, fact.type) for fact in facts if fact.type in ENDS]
    if ended != [(receipt.run, "run.completed") for receipt in talk.receipts]:
        yield f"runs ended as {ended}, not one for each of {[receipt.run for receipt in talk.receipts]} in order"
    begun = [fact.run for fact in facts if fact.type == "run.started"]
    if begun != [receipt.run for receipt in talk.receipts]:
        yield f"runs began as {begun}"


def _runs(facts: Sequence[Fact]) -> Iterator[str]:
    """Hold that epochs rise, that one run works at a time, and that nothing of a run follows its end."""
    epochs: dict[str, int] = {}
    over: set[str] = set()
    for fact in facts:
        if fact.run is None:
            continue
        if fact.run in over:
            yield f"behind the end of its run: {fact}"
        if fact.type in {"run.started", "run.resumed"}:
            if fact.data["epoch"] <= epochs.get(fact.run, 0):
                yield f"an epoch that does not rise: {fact}"
            epochs[fact.run] = fact.data["epoch"]
            if at_work := set(epochs) - over - {fact.run}:
                yield f"begins while {at_work} is at work: {fact}"
        if fact.type in ENDS:
            over.add(fact.run)


def _writes(facts: Sequence[Fact], executions: Sequence[Execution]) -> Iterator[str]:
    """Hold that each call has one end, that no write was executed twice, and that each execution is told."""
    requested = {fact.data["call"]: fact for fact in facts if fact.type == "tool.requested"}
    outcomes: dict[str, list[str]] = defaultdict(list)
    for fact in facts:
        if fact.type == "tool.completed":
            outcomes[fact.data["call"]].append(fact.data["outcome"])
    executed = Counter(each.call for each in executions)
    for call, asked in requested.items():
        name, found, times = asked.data["name"], outcomes[call], executed[call]
        fits = {
            "look": found == ["done"],
            "pay": found == ["done"] and times >= 1,
            "note": (found == ["done"] and times == 1) or (found == ["unknown"] and times <= 1),
        }
        if not fits[name]:
            yield f"{name} {call} was executed {times} times and ended as {found}: {asked}"


def _told(talk: Talk, facts: Sequence[Fact]) -> Iterator[str]:
    """Hold that the model was told how each call of a run ended: its last text repeats what it was told."""
    for receipt in talk.receipts:
        own = [fact for fact in facts if fact.run == receipt.run]
        answers = [fact.data for fact in own if fact.type == "message.completed"]
        if not answers:
            continue
        text = "".join(part["text"] for part in answers[-1]["parts"] if part["type"] == "text")
        told = [f"[{part['text']}]" for fact in own if fact.type == "tool.completed" for part in fact.data["parts"]]
        words = [f"w{n}" for n in range(receipt.question.words)]
        want = " ".join((*receipt.question.name, *told, *words))
        if Counter(text.split()) != Counter(want.split()) or text.split()[:2] != list(receipt.question.name):
            yield f"{receipt.run} was to be answered by {want!r}, not by {text!r}"


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


def _differ(found: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    return "; ".join(
        f"{name}: {found.get(name)!r}, not {wanted.get(name)!r}"
        for name in {**found, **wanted}
        if found.get(name) != wanted.get(name)
    )
