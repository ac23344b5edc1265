"""Counters of this process since its start, from the facts that it committed. No I/O."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any

from prometheus_client import Histogram

from agent_core import events as e
from agent_core.clock import Clock
from agent_core.events import Fact
from agent_core.messages import KINDS, Usage

OTHER = "other"
"""The label of unknown names: names from outside must not fill the memory of the metrics server."""
_MODELS = 50
_TOOLS = 1000
_DECLARED_TOOLS = 50
_FOLLOWED = 10_000
"""How many runs are followed at once; beyond that the oldest is dropped."""
_PROMPT = ("input", "cache_read", "cache_write_short", "cache_write_long")
_CAUSES = frozenset({"rung", "crashed", "restarted", "handed_over", "outage", "due", "answered"})
_QUICK = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_SLOW = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


def histogram(name: str, text: str, bounds: Sequence[float] = _QUICK, labels: Sequence[str] = ()) -> Histogram:
    """Return a histogram, of seconds as a rule, that no registry knows: `app.serving.metrics` exports its samples."""
    return Histogram(name, text, labels, buckets=bounds, registry=None)


class _CountedRun:
    """A run that this process drives: *started* in milliseconds, None if elsewhere; *calls* are labels by open call."""

    __slots__ = ("calls", "has_failed", "has_text", "model", "started")

    def __init__(self, started: int | None) -> None:
        self.started, self.model = started, "unknown"
        self.has_text = self.has_failed = False
        self.calls: dict[str, str] = {}


class Counters:
    """Counts facts as they are committed here, so that over all processes each is counted once.

    Tools of this process are counted under their names, see `know`. Tools that agents declare get labels of their own
    too, up to a bound. Counters are keyed by their labels, in the order of the comments.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock, self._tools = clock, set[str]()
        self._runs: dict[str, _CountedRun] = {}
        self._models: set[str] = set()
        self._declared: set[str] = set()
        self.messages = self.started = 0
        self.ended: Counter[tuple[str, str]] = Counter()  # status, reason
        self.resumed: Counter[str] = Counter()  # cause
        self.steps: Counter[str] = Counter()  # model
        self.retries: Counter[str] = Counter()  # model
        self.failures: Counter[str] = Counter()  # kind
        self.tokens: Counter[tuple[str, str]] = Counter()  # model, kind
        self.cost: dict[str, Decimal] = {}  # model
        self.misses: Counter[str] = Counter()  # cause
        self.compactions: Counter[str] = Counter()  # kind, or `failed`
        self.calls: Counter[tuple[str, str]] = Counter()  # tool, outcome
        self.limited: Counter[str] = Counter()  # limit
        self.first_text = histogram("parley_first_text_seconds", "From the start of a run to its first text.", _SLOW)
        self.seconds = histogram("parley_run_seconds", "Runs that one process drove from start to end.", _SLOW)
        self.appends = histogram("parley_append_seconds", "Transactions that append to a run's log.")
        self.late = histogram("parley_event_loop_late_seconds", "By how much timers of the event loop come late.")
        self._on: dict[str, Callable[[Fact, Any], None]] = {
            e.MessageReceived.type: self._message,
            e.RunStarted.type: self._start,
            e.RunResumed.type: self._resume,
            e.StepStarted.type: self._step,
            e.StepFailed.type: self._failure,
            e.StepCompleted.type: self._completed,
            e.CacheMissed.type: self._missed,
            e.ContextCompacted.type: self._compacted,
            e.CompactionFailed.type: self._compacted,
            e.ToolRequested.type: self._requested,
            e.ToolPending.type: self._pending,
            e.ToolCompleted.type: self._result,
            **{cls.type: self._end for cls in (*e.TERMINAL, e.RunWaiting)},
        }

    def facts(self, facts: Sequence[Fact]) -> None:
        """Count *facts*, which this process has just committed."""
        for fact in facts:
            count = self._on.get(fact.type)
            if count is not None:
                count(fact, fact.body)

    def know(self, tools: Collection[str]) -> None:
        """Count each of *tools* under its own name from now on, up to `_TOOLS` of them."""
        if not self._tools.issuperset(tools):
            self._tools.update(sorted(set(tools) - self._tools)[: _TOOLS - len(self._tools)])

    def resumed_run(self, run: str, model: str | None, tools: Mapping[str, str] | None = None) -> None:
        """Note the model and tools of a run that waited or began elsewhere, since its facts do not repeat them.

        *model* is the one of its newest step, *tools* the names of its agent's tools by open call.
        """
        if model:
            self._followed(run).model = self._model(model)
        if tools:
            self._followed(run).calls.update({call: self._tool(name) for call, name in tools.items()})

    def forget(self, run: str) -> None:
        """Stop following a run that another process drives."""
        self._runs.pop(run, None)

    def cache_share(self) -> Mapping[str, float]:
        """Return by model the part of all prompt tokens that was read from the cache; those that have any."""
        shares: dict[str, float] = {}
        for model in {model for model, _ in self.tokens}:
            prompt = sum(self.tokens[model, kind] for kind in _PROMPT)
            if prompt:
                shares[model] = self.tokens[model, "cache_read"] / prompt
        return shares

    def text_of(self, run: str | None) -> None:
        """Note that the first text of *run* is shown."""
        counted = self._runs.get(run or "")
        if counted is not None and not counted.has_text:
            counted.has_text = True
            if counted.started is not None:
                self.first_text.observe(max(0, self._clock.now() - counted.started) / 1000)

    def _followed(self, run: str | None, started: int | None = None) -> _CountedRun:
        counted = self._runs.get(run or "")
        if counted is None:
            if len(self._runs) >= _FOLLOWED:
                del self._runs[next(iter(self._runs))]
            counted = self._runs[run or ""] = _CountedRun(started)
        return counted

    def _model(self, name: str) -> str:
        if name not in self._models and len(self._models) < _MODELS:
            self._models.add(name)
        return name if name in self._models else OTHER

    def _message(self, _fact: Fact, _body: e.MessageReceived) -> None:
        self.messages += 1

    def _start(self, fact: Fact, _body: e.RunStarted) -> None:
        self.started += 1
        self._followed(fact.run, fact.time)

    def _resume(self, _fact: Fact, body: e.RunResumed) -> None:
        self.resumed[body.cause if body.cause in _CAUSES else OTHER] += 1

    def _step(self, fact: Fact, body: e.StepStarted) -> None:
        run = self._followed(fact.run)
        if body.controls and (model := body.controls.get("model")):
            run.model = self._model(model)
        if run.has_failed:  # else a higher attempt is that of a process which resumed the run
            self.retries[run.model] += 1
        run.has_failed = False

    def _failure(self, fact: Fact, body: e.StepFailed) -> None:
        self.failures[body.code if body.code in KINDS else OTHER] += 1
        self._followed(fact.run).has_failed = True
        self._bill(self._followed(fact.run).model, body.usage, body.cost)

    def _completed(self, fact: Fact, body: e.StepCompleted) -> None:
        self.steps[self._followed(fact.run).model] += 1
        self._bill(self._followed(fact.run).model, body.usage, body.cost)

    def _missed(self, _fact: Fact, body: e.CacheMissed) -> None:
        self.misses[body.cause] += 1

    def _compacted(self, fact: Fact, body: e.ContextCompacted | e.CompactionFailed) -> None:
        self.compactions[body.kind if isinstance(body, e.ContextCompacted) else "failed"] += 1
        model = self._model(body.model) if body.model else self._followed(fact.run).model
        self._bill(model, body.usage, body.cost)

    def _bill(self, model: str, usage: Usage | None, cost: str | None) -> None:
        for kind in usage.__struct_fields__ if usage else ():
            if number := getattr(usage, kind):
                self.tokens[model, kind] += number
        if cost is not None:
            self.cost[model] = self.cost.get(model, Decimal()) + Decimal(cost)

    def _tool(self, name: str) -> str:
        """Return the label of a tool that an agent has."""
        if name in self._tools:
            return name
        if name not in self._declared and len(self._declared) < _DECLARED_TOOLS:
            self._declared.add(name)
        return name if name in self._declared else OTHER

    def _requested(self, fact: Fact, body: e.ToolRequested) -> None:
        self._followed(fact.run).calls[body.call] = body.name if body.name in self._tools else OTHER

    def _pending(self, fact: Fact, body: e.ToolPending) -> None:
        if body.tool is not None:  # a model may ask for any name, but only a tool that an agent has becomes pending
            self._followed(fact.run).calls[body.call] = self._tool(body.tool)

    def _result(self, fact: Fact, body: e.ToolCompleted) -> None:
        run = self._runs.get(fact.run or "")
        tool = run.calls.pop(body.call, None) if run else None
        name = self._tool(fact.tool) if fact.tool is not None else tool or OTHER
        self.calls[name, body.outcome] += 1

    def _end(self, fact: Fact, body: e.Terminal | e.RunWaiting) -> None:
        run = self._runs.pop(fact.run or "", None)
        match body:
            case e.RunWaiting():  # what resumes it calls `resumed_run`; the wait does not count as running
                return
            case e.RunCompleted():
                self.ended["completed", body.stop_reason] += 1
            case e.RunFailed():
                self.ended["failed", body.code] += 1
            case e.RunCancelled():
                self.ended["cancelled", ""] += 1
        if run is not None and run.started is not None:
            self.seconds.observe(max(0, fact.time - run.started) / 1000)
