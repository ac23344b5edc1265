"""The model calls that write summaries: what they answered, and what they used."""

from dataclasses import dataclass, field
from decimal import Decimal

from msgspec.structs import replace

from agent_core.domain import events as e
from agent_core.domain.controls import Controls, is_forced
from agent_core.domain.messages import Usage
from agent_core.providers import base as p
from agent_core.providers import models

TOOL_CALLED = "tool_called"
_LONG_ENOUGH = 3
"""Characters of a cut summary, for each token that it may take, from which on it counts: it is as long as asked for."""


@dataclass(slots=True)
class SummarySpending:
    """What the calls of a compaction have used so far; *model* is the one that was asked last."""

    model: str = ""
    usage: Usage | None = None
    cost: str | None = "0"
    uncached: str | None = "0"

    def add(self, model: str, listed: str, usage: Usage) -> None:
        """Add a call of *model*, which the model table has as *listed*."""
        self.model = model
        self.cost = _plus(self.cost, models.cost(listed, usage))
        self.uncached = _plus(self.uncached, models.uncached_cost(listed, usage))
        self.usage = usage if self.usage is None else self.usage + usage

    @property
    def costs(self) -> tuple[str | None, str | None]:
        """Return what the calls cost, and would have cost without a cache; None of both if nothing was answered."""
        return (self.cost, self.uncached) if self.usage else (None, None)

    def failed(self, code: str, message: str) -> e.CompactionFailed:
        """Return the fact that no summary was made."""
        cost, uncached = self.costs
        return e.CompactionFailed(
            model=self.model, code=code, message=message, usage=self.usage, cost=cost, uncached_cost=uncached
        )


@dataclass(slots=True)
class SummaryAnswer:
    """What one call answered: text, or why there is none (*code*, *message*)."""

    texts: list[str] = field(default_factory=list[str])
    usage: Usage | None = None
    begun: bool = False
    code: str | None = None
    message: str = ""
    ended: bool = False
    is_cut: bool = False

    def take(self, delta: p.ModelDelta) -> None:
        """Note one delta of the answer."""
        self.begun = self.begun or not isinstance(delta, p.CallFailed)
        match delta:
            case p.ModelTextDelta(_, text):
                self.texts.append(text)
            case p.UsageReport(usage):
                self.usage = usage.believed()
            case p.ToolStart(_, _, name):
                self.code, self.message = TOOL_CALLED, f"The model called `{name}` instead of writing a summary."
            case p.Refusal(text):
                self.code, self.message = "refused", text or "The model refused to write a summary."
            case p.CallFailed(kind, message):
                self.code, self.message, self.ended = kind, message, True
            case p.Finished("refused"):
                self.code, self.message, self.ended = "refused", "The model refused to write a summary.", True
            case p.Finished(reason):
                self.ended, self.is_cut = True, reason == "length"
            case _:
                return

    def closed(self, tokens: int) -> "SummaryAnswer":
        """Return the answer once its stream is over: a summary is not empty, and whole or as long as *tokens* allow."""
        text = "".join(self.texts).strip()
        if self.code is None and not self.ended:
            self.code, self.message = "network", "The summary broke off before its end."
        elif self.code is None and self.is_cut and len(text) < tokens * _LONG_ENOUGH:
            self.code, self.message = "length", "The answer was cut before the summary was whole."
        elif self.code is None and not text:
            self.code, self.message = "empty", "The model answered without a summary."
        return self


def as_text(controls: Controls, *, withheld: bool = False) -> Controls:
    """Return *controls* without what keeps an answer from being a whole text; *withheld*: it may call no tool."""
    choice = "auto" if is_forced(controls.tool_choice) else controls.tool_choice
    choice = "none" if withheld else choice
    return replace(controls, tool_choice=choice, output_schema=None, max_output_tokens=None)


def _plus(total: str | None, more: str | None) -> str | None:
    """Add decimals; a sum with an unknown part is itself unknown."""
    return None if total is None or more is None else f"{Decimal(total) + Decimal(more):f}"
