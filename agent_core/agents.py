"""Agents: frozen definitions, what their tools are like, and what one step may do."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from agent_core.places import Slack

ToolChoice = Literal["auto", "none"]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
DEFAULT_MAX_STEPS = 25
DEFAULT_CONTEXT_MESSAGES = 200
RESULT_LIMIT = 50_000


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What the loop knows of a tool.

    *effect* `write` means that a second execution may do harm; *idempotent* that the tool takes the call id as
    an idempotency key; *timeout* is seconds; *result_limit* characters of text shown to the model.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    effect: Literal["read", "write"] = "read"
    concurrency_safe: bool = False
    idempotent: bool = False
    timeout: float = 60.0
    result_limit: int = RESULT_LIMIT


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """*max_context_messages* is both the window's bound and the history depth; None keeps everything.

    *max_runs* is how many runs of the agent, their children not counted, may run at once over all processes and
    versions; None sets no bound. The newest version's word counts for all of them.
    """

    max_context_messages: int | None = DEFAULT_CONTEXT_MESSAGES
    max_runs: int | None = None


class Controls(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a run or one step may do; None means: ask the next layer.

    *max_output_tokens* bounds one model call. *effort* is how hard the model thinks; one that lacks the level takes
    its nearest. *temperature* is 0 to 2, and left out for a model that takes none.
    """

    model: str | None = None
    max_steps: int | None = None
    max_output_tokens: int | None = None
    effort: Effort | None = None
    temperature: float | None = None
    tool_choice: ToolChoice | None = None


class Web(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the web widget shows of this agent's tools to a visitor."""

    show_tools: Literal["none", "names", "full"] = "names"


class Definition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An agent as its author writes it, in YAML or over HTTP.

    *fallback_models* answer, in this order, when the model fails before the first token of its answer.
    """

    name: str
    instructions: str
    model: str | None = None
    fallback_models: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    limits: Limits = Limits()
    controls: Controls = Controls()
    web: Web = Web()
    slack: Slack = Slack()


class Snapshot(msgspec.Struct, frozen=True):
    """The frozen prompt prefix of a session; *tools* are sorted by name; *hash* names the content."""

    hash: str
    model: str
    instructions: str
    tools: tuple[ToolSpec, ...]


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """One version of an agent as a run uses it: definition, frozen snapshot, and the run's own overrides."""

    id: str
    version: int
    definition: Definition
    snapshot: Snapshot
    tools: Mapping[str, ToolSpec]
    overrides: Controls = Controls()

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def max_steps(self) -> int:
        return self.overrides.max_steps or self.definition.controls.max_steps or DEFAULT_MAX_STEPS


def controls(n: int, agent: Agent, model: str | None = None) -> Controls:
    """Return what step *n* (from 1) of a run of *agent* may do: run over agent over default.

    The last step withholds the tools, so that a run ends with an answer. *model* is a fallback that took over.
    """
    over, own = agent.overrides, agent.definition.controls
    wish = over.tool_choice or own.tool_choice or "auto"
    last = n >= agent.max_steps and bool(agent.tools)
    return Controls(
        model=model or agent.snapshot.model,
        max_steps=agent.max_steps,
        max_output_tokens=over.max_output_tokens or own.max_output_tokens,
        effort=over.effort or own.effort,
        temperature=own.temperature if over.temperature is None else over.temperature,
        tool_choice="none" if last or not agent.tools else wish,
    )
