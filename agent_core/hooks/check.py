"""Check an agent's hooks when its definition is stored."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

import msgspec
import structlog

from agent_core.domain.agents import RENDER_TOOLS, Definition
from agent_core.domain.approvals import check_approval
from agent_core.domain.channels import Channels
from agent_core.domain.hooks import (
    CONFIGS,
    ApprovalConfig,
    Config,
    Hook,
    HookEvent,
    HttpConfig,
    RuleConfig,
    config_of,
    covers,
)
from agent_core.domain.likely import hint
from agent_core.domain.tools import is_glob
from agent_core.domain.unknown_fields import misfit
from agent_core.errors import InvalidInput
from agent_core.hooks.http import check_http
from agent_core.hooks.rule import check_rule
from agent_core.net.errors import FetchRefused
from agent_core.net.targets import TargetGuard

MAX_HOOKS = 50
MAX_NAME = 60
_OF_TOOLS = ("PreToolUse", "PostToolUse")
_log = structlog.get_logger("parley.hooks")


def check(hooks: Sequence[Hook], channels: Channels) -> None:
    """Raise `InvalidInput`, with path and remedy, when one of *hooks* is invalid; *channels* know its responders."""
    if len(hooks) > MAX_HOOKS:
        raise InvalidInput("hooks", f"at most {MAX_HOOKS}; merge some, or match more tools with one.")
    names: set[str] = set()
    for index, hook in enumerate(hooks):
        path = f"hooks[{index}]"
        _check_shape(path, hook)
        if hook.name is not None and (not hook.name.strip() or len(hook.name) > MAX_NAME):
            raise InvalidInput(f"{path}.name", f"a name has 1 to {MAX_NAME} characters.")
        name = hook.name or f"{hook.type}-{index + 1}"
        if name in names:
            raise InvalidInput(f"{path}.name", f"`{name}` is there twice; names are unique.")
        names.add(name)
        _check_config(f"{path}.config", _read(path, hook), hook.event, channels)


def check_matchers(definition: Definition, named: Sequence[str] | None = None) -> None:
    """Raise `InvalidInput` when a hook names a tool that its agent lacks: a mistyped name would guard nothing.

    *named* are the tools that its globs and names mean now. A matcher for tools that may be added later is logged as a
    warning: a glob, and a name that a glob of the agent matches.
    """
    listed = _names(definition)
    for place, matcher in unmatched(definition, named):
        if is_name(matcher) and not any(fnmatchcase(matcher, each) for each in listed):
            tools = listed if named is None else named
            names = ", ".join(f"`{name}`" for name in sorted(tools))
            problem = f"the agent has no tool `{matcher[:100]}`{hint(matcher, tools)}; its tools are: {names}."
            raise InvalidInput(f"hooks[{place}].matcher", problem)
        remedy = "correct it, unless such tools will be added later"
        _log.warning("hook.matches_nothing", agent=definition.name, hook=place + 1, matcher=matcher, remedy=remedy)


def check_addresses(hooks: Sequence[Hook], guard: TargetGuard) -> None:
    """Raise `InvalidInput` for a webhook that *guard* would refuse to ask, whatever its name resolves to."""
    for index, hook in enumerate(hooks):
        config = config_of(hook)
        if isinstance(config, HttpConfig):
            try:
                guard.check(config.url)
            except FetchRefused as error:
                raise InvalidInput(f"hooks[{index}].config.url", str(error)) from None


def warn_open(definition: Definition) -> None:
    """Log a warning for each hook that `fails_open`."""
    remedy = "write `on_error: deny` to have it block when it cannot be asked, or `on_error: allow` to accept that"
    for place in fails_open(definition.hooks):
        hook = definition.hooks[place]
        _log.warning(
            "hook.fails_open", agent=definition.name, hook=hook.name or place + 1, at=hook.event, remedy=remedy
        )


def fails_open(hooks: Sequence[Hook]) -> Sequence[int]:
    """Return the places of webhooks that decide and whose author did not say what counts when they cannot be asked."""
    return [
        index
        for index, hook in enumerate(hooks)
        if hook.type == "http" and hook.event != "OnRunComplete" and "on_error" not in hook.config
    ]


def unmatched(definition: Definition, named: Sequence[str] | None = None) -> Sequence[tuple[int, str]]:
    """Return the matchers that match no tool of the agent, each with its hook's index.

    An agent without tools has none: there is nothing to guard yet. The render tools may be its own without being named.
    Without the *named* tools a glob of the agent may mean any that it matches.
    """
    names = _names(definition)
    guarded = [*(names if named is None else named), *RENDER_TOOLS]
    return [
        (index, hook.matcher)
        for index, hook in enumerate(definition.hooks)
        if hook.matcher is not None and names and not any(_may_cover(hook, name) for name in guarded)
    ]


def is_name(matcher: str) -> bool:
    """Return whether *matcher* is a tool's name, not a glob."""
    return not is_glob(matcher)


def _may_cover(hook: Hook, listed: str) -> bool:
    """Return whether *hook* runs for a tool that *listed*, a name or a glob, means."""
    if not is_glob(listed) or hook.matcher is None:
        return covers(hook, listed)
    return is_glob(hook.matcher) or fnmatchcase(hook.matcher, listed)


def _names(definition: Definition) -> Sequence[str]:
    return [tool if isinstance(tool, str) else tool.name for tool in definition.tools]


def _check_shape(path: str, hook: Hook) -> None:
    if hook.type == "approval" and hook.event != "PreToolUse":
        raise InvalidInput(f"{path}.event", "an approval is asked for at `PreToolUse` only.")
    if hook.type == "rule" and hook.event == "OnRunComplete":
        raise InvalidInput(f"{path}.event", "a rule has nothing to decide at `OnRunComplete`; use `http`.")
    if hook.matcher is not None and hook.event not in _OF_TOOLS:
        raise InvalidInput(f"{path}.matcher", f"`{hook.event}` does not concern a tool; leave the matcher out.")
    if hook.matcher is not None and not hook.matcher.strip():
        raise InvalidInput(f"{path}.matcher", "a tool's name or a glob; leave it out for every tool.")


def _read(path: str, hook: Hook) -> Config:
    try:
        return config_of(hook)
    except msgspec.ValidationError as error:
        where, why = misfit(error, CONFIGS[hook.type])
        at = f" - at `{where}`" if where else ""
        raise InvalidInput(f"{path}.config", f"does not fit a hook of type `{hook.type}`: {why}{at}") from None


def _check_config(path: str, config: Config, event: HookEvent, channels: Channels) -> None:
    match config:
        case ApprovalConfig():
            check_approval(path, config, channels)
        case RuleConfig():
            check_rule(path, config, event)
        case HttpConfig():
            check_http(path, config)
