"""What a storm was like, in lines that a person reads."""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median, quantiles

from tests.chaos.storm import Storm
from tests.chaos.takeover import Takeover, finished, takeovers

TARGET = 15.0


def lines(storm: Storm) -> Iterator[str]:
    """Give the report of a storm that is over."""
    story = storm.story
    facts = [fact for log in story.logs.values() for fact in log]
    receipts = sum(len(talk.receipts) for talk in storm.talks)
    kinds = Counter(fact.type for fact in facts)
    yield f"seed {storm.weather.seed}: {storm.weather.talks} talks, {receipts} messages, {len(facts)} facts"
    yield f"kills: {len(story.kills)} SIGKILLs, {story.web_kills} of them on a server with a message on its way"
    yield f"resumes: {kinds['run.resumed']}; calls: {kinds['tool.requested']}; connections of the readers: " + str(
        sum(talk.connections for talk in storm.talks)
    )
    outcomes = Counter(fact.data["outcome"] for fact in facts if fact.type == "tool.completed")
    yield f"calls ended as {dict(outcomes)}"
    yield (
        f"runs stopped: {sum(len(talk.stops) for talk in storm.talks)}, {kinds['run.cancelled']} of them in time; "
        f"messages that joined a run: {sum(each.steered for talk in storm.talks for each in talk.receipts)}, "
        f"{sum(bool(fact.data.get('inputs')) for fact in facts if fact.type == 'run.queued')} runs opened by such"
    )
    if late := sum(talk.seen.late for talk in storm.talks):
        yield f"heartbeats that came behind the end of their run: {late}"
    yield f"what clients got beside answers: {dict(storm.net.refused)}"
    took = quantiles(storm.net.took, n=100, method="inclusive")
    longest = max(storm.net.took)
    yield f"requests that were answered took p50 {took[49]:.2f} s, p99 {took[98]:.2f} s, longest {longest:.1f} s"
    found = [each for log in story.logs.values() for each in takeovers(story.kills, log)]
    yield from _takeovers([each for each in found if each.vain <= 1], "takeover after SIGKILL")
    yield from _takeovers([each for each in found if each.vain > 1], "the same behind several vain resumes")
    yield from (f"zombie {each}" for each in story.zombies)
    yield from (f"database {each}" for each in story.outages)
    for loss, seconds, left in story.deploys:
        handed = [each.seconds for log in story.logs.values() for each in takeovers([loss], log)]
        slowest = f", the slowest {max(handed):.1f} s after its end" if handed else ""
        yield (
            f"deploy {loss.member}: ended {seconds:.1f} s after SIGTERM; of {len(loss.held)} runs "
            f"{finished(loss, facts)} ended in place, {len(handed)} were handed on{slowest}; {left} still in its name"
        )
    yield from _traces(storm.fleet.logs())


def _takeovers(found: Sequence[Takeover], what: str) -> Iterator[str]:
    if found:
        seconds = sorted(each.seconds for each in found)
        p99 = quantiles(seconds, n=100, method="inclusive")[98] if len(seconds) > 1 else seconds[0]
        verdict = "met" if p99 < TARGET else "MISSED"
        yield (
            f"{what}: {len(seconds)} runs, p50 {median(seconds):.1f} s, p99 {p99:.1f} s, longest {seconds[-1]:.1f} s "
            f"(p99 under {TARGET:g} s: {verdict})"
        )


def _traces(logs: str) -> Iterator[str]:
    """Give each kind of error that a process wrote a trace of, with how often."""
    ends: Counter[str] = Counter()
    inside = False
    for line in logs.splitlines():
        if line.startswith("Traceback "):
            inside = True
        elif inside and line and not line.startswith((" ", "During", "The above")):
            ends[line[:160]] += 1
            inside = False
    yield from (f"trace in the logs, {count} times: {line}" for line, count in ends.most_common())
