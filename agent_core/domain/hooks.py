"""Hooks as an agent's author writes them: at which event they run, for which tools, in which order. Pure."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec

HookEvent = Literal["OnRunStart", "PreToolUse", "PostToolUse", "PreResponse", "OnRunComplete"]
HookType = Literal["http", "rule", "approval"]
Operator = Literal["CONTAINS", "STARTS_WITH", "MATCHES", "IN", "EQUALS", "GREATER_THAN"]
_RANK: dict[str, int] = {"rule": 0, "http": 1, "approval": 2}


class Hook(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One hook: asked at *event*, of the tools that *matcher* names (a name or a glob; None: every tool).

    Those of the same *order* are asked by type, rules first and people last, then as they are written. *name* is its
    name in the log. *config* is read as the type's own struct below.
    """

    event: HookEvent
    type: HookType
    matcher: str | None = None
    order: int = 0
    config: dict[str, Any] = {}
    name: str | None = None


class ApprovalConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The people who may decide on a call, and how they may.

    *responders* are `asker`, `operators`, `anyone`, `not_asker`, `actor:<id>` and `slack:<user or group id>`; *quorum*
    is how many must approve; after *timeout_s* seconds the call is denied, or the run fails. With *edit* the arguments
    may be corrected; with *remember* the tool may be allowed for the rest of the conversation. *deliver_to* names
    places (`slack:<channel or user id>`) where the question is shown besides the conversation, with *title* and
    *detail*.
    """

    responders: tuple[str, ...] = ("asker", "operators")
    quorum: int = 1
    timeout_s: float = 300
    on_timeout: Literal["deny", "fail"] = "deny"
    edit: bool = False
    remember: bool = False
    deliver_to: tuple[str, ...] = ()
    title: str | None = None
    detail: str | None = None


class Condition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """*field* is a path: `arguments.…`, `actor.id`, `actor.kind`, `actor.name`, `channel`, `tool`, `text`, `result`."""

    field: str
    operator: Operator
    value: Any


class RuleConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """If all *conditions* hold, the ruling is *decision*; otherwise the rule gives no ruling."""

    conditions: tuple[Condition, ...]
    decision: Literal["deny", "allow"] = "deny"
    reason: str | None = None


class HttpConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Ask *url*, signed with *secret*; *on_error* is the ruling when it is down, slow or its answer is invalid."""

    url: str
    secret: str
    timeout_s: float = 5
    on_error: Literal["allow", "deny"] = "allow"


Config = ApprovalConfig | RuleConfig | HttpConfig
CONFIGS: dict[HookType, type[Config]] = {"approval": ApprovalConfig, "rule": RuleConfig, "http": HttpConfig}


class NamedHook(msgspec.Struct, frozen=True):
    """A hook of an agent with its *name* in the log and its parsed *config*."""

    name: str
    hook: Hook
    config: Config


def config_of(hook: Hook) -> Config:
    """Return the config of *hook*, parsed by its type; raises `msgspec.ValidationError`."""
    return msgspec.convert(hook.config, CONFIGS[hook.type])


def covers(hook: Hook, tool: str) -> bool:
    """Return whether *hook* runs for *tool*."""
    return hook.matcher is None or fnmatchcase(tool, hook.matcher)


def chain(hooks: Sequence[Hook], event: HookEvent, tools: Sequence[str] = ()) -> list[NamedHook]:
    """Return the hooks that are asked at *event* (of a tool with one of the names *tools*), in their order."""
    named = [(hook, hook.name or f"{hook.type}-{index}") for index, hook in enumerate(hooks, 1)]
    entries = [
        (hook, name)
        for hook, name in named
        if hook.event == event and (not tools or any(covers(hook, tool) for tool in tools))
    ]
    entries.sort(key=lambda each: (each[0].order, _RANK[each[0].type]))
    return [NamedHook(name, hook, config_of(hook)) for hook, name in entries]
