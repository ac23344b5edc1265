"""The report of a storm, as lines of text."""

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median, quantiles

from tests.chaos.goals import STALLED, p99
from tests.chaos.records import Fact
from tests.chaos.storm import Storm, StormRecord
from tests.chaos.takeover import finished
from tests.e2e.server import ROOT


def lines(storm: Storm) -> Iterator[str]:
    """Give the report of a storm that is over."""
    story = storm.story
    facts = [fact for log in story.logs.values() for fact in log]
    receipts = sum(len(talk.receipts) for talk in storm.talks)
    kinds = Counter(fact.type for fact in facts)
    yield f"commit {commit()}, seed {storm.weather.seed}"
    yield f"{storm.weather.talks} talks, {receipts} messages, {len(facts)} facts"
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
    yield f"what clients got beside answers: {dict(storm.net.refused)}"
    took = quantiles(storm.net.took, n=100, method="inclusive")
    longest = max(storm.net.took)
    yield f"requests that were answered took p50 {took[49]:.2f} s, p99 {took[98]:.2f} s, longest {longest:.1f} s"
    yield from _spread("takeover after SIGKILL", [each.seconds for each in story.takeovers if each.stalled <= STALLED])
    rest = [each.seconds for each in story.takeovers if each.stalled > STALLED]
    yield from _spread("the same after several resumes without progress, which back off and are not in the goal", rest)
    yield from _spread("stop, from its answer to the run's end (no takeover, no outage between)", story.stops)
    yield from (f"zombie {each}" for each in story.zombies)
    yield from (f"database {each}" for each in story.outages)
    yield from _deploys(story, facts)
    yield from _traces(storm.fleet.logs())


def commit() -> str:
    """Return the commit that the storm tested, as git names it."""
    git = shutil.which("git")
    if git is None:
        return "unknown"
    command = (git, "describe", "--always", "--dirty", "--exclude=*")
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False).stdout.strip()


def _spread(what: str, seconds: Sequence[float]) -> Iterator[str]:
    if seconds:
        yield (
            f"{what}: {len(seconds)} runs, p50 {median(seconds):.2f} s, p99 {p99(seconds):.2f} s, "
            f"longest {max(seconds):.2f} s"
        )


def _deploys(story: StormRecord, facts: Sequence[Fact]) -> Iterator[str]:
    ended = handed = 0
    for deploy in story.deploys:
        loss, after = deploy.loss, story.handed_on(deploy)
        ended, handed = ended + finished(loss, facts), handed + len(after)
        slowest = f", the slowest {max(after):.1f} s after its end" if after else ""
        hurry = " in a hurry" if deploy.hurried else ""
        yield (
            f"deploy {loss.member}{hurry}: ended {deploy.seconds:.1f} s after SIGTERM; "
            f"of {len(loss.held)} runs {finished(loss, facts)} ended in place, {len(after)} were handed on{slowest}; "
            f"{deploy.left} still in its name"
        )
    if story.deploys:
        yield f"of all that were driven at a deploy {ended} runs ended in place and {handed} were handed on"


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
