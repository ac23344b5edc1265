"""Agent files: the YAML of PARLEY_AGENTS as definitions."""

import difflib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec
from dotenv import dotenv_values

from agent_core import Channels, ConfigError, Definition, InvalidInput
from agent_core.agents import gathered
from agent_core.channels import misfit, unknown_field
from agent_core.hooks.http import check_secrets
from agent_core.hooks.rules import check as check_hooks
from agent_core.runtime.agent_checks import check_fields
from app.bounded_yaml import read_config

SUFFIXES = frozenset({".yaml", ".yml"})
ENV_FILE = Path(".env")
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class AgentFiles:
    """What the files of a folder define: *agents* by their files, and why the *broken* ones define nothing."""

    agents: Mapping[Path, Definition]
    broken: Mapping[Path, str]


def read_agents(folder: Path, *, channels: Channels, check: Callable[[str, str], None]) -> AgentFiles:
    """Return what the files of *folder* define.

    *channels* are what an agent may configure; *check* raises for a model that no provider serves, given with the place
    that names it. Which tools and servers there are may not be known yet, see `usable`. What is said of a broken file
    has its path and the field.
    """
    agents: dict[Path, Definition] = {}
    broken: dict[Path, str] = {}
    for path in sorted(p for p in folder.iterdir() if p.suffix in SUFFIXES):
        try:
            made = read_agent(path)
            made = _checked(path, made, channels)
            for field, model in _models(made):
                check(model, f"{path}: `{field}`")
            _check_name(path, made, agents)
        except ConfigError as error:
            broken[path] = str(error)
        else:
            agents[path] = made
    while conflicts := channels.conflicts(agents.values()):
        conflict = conflicts[0]
        path = next(path for path, made in agents.items() if made.name == conflict.second)
        broken[path] = f"{path}: `{conflict.path}`: {conflict}"
        del agents[path]
    return AgentFiles(agents, broken)


def usable(files: AgentFiles, check: Callable[[Definition], None]) -> AgentFiles:
    """Return *files* with those among the broken that *check* refuses, by `InvalidInput`."""
    agents, broken = dict[Path, Definition](), dict(files.broken)
    for path, made in files.agents.items():
        try:
            check(made)
        except InvalidInput as error:
            broken[path] = f"{path}: {error}"
        else:
            agents[path] = made
    return AgentFiles(agents, dict(sorted(broken.items())))


def _check_name(path: Path, made: Definition, others: Mapping[Path, Definition]) -> None:
    for other, definition in others.items():
        if made.name == definition.name:
            raise ConfigError(f"{path}: `name`: `{made.name}` is defined in `{other.name}` too; rename one of them.")


def read_agent(path: Path, env_file: Path | None = ENV_FILE) -> Definition:
    """Return the agent that the file at *path* defines.

    A hook's `secret: ${NAME}` is taken from the environment, or from *env_file*: no file has to contain a secret.
    """
    content = read_config(path)
    for place, config in enumerate(_configs(content)):
        if name := _VARIABLE.fullmatch(str(config.get("secret"))):
            config["secret"] = _variable(name[1], f"{path}: `hooks[{place}].config.secret`", env_file)
    try:
        made = msgspec.convert(gathered(content) if isinstance(content, dict) else content, Definition)
    except InvalidInput as error:
        raise ConfigError(f"{path}: {error}") from None
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {_field_fault(error, content)}") from None
    if not made.name.strip() or not made.instructions.strip():
        raise ConfigError(f"{path}: `name` and `instructions` must not be empty.")
    return made


def _configs(content: Any) -> list[dict[str, Any]]:
    """Return the configs of the hooks in *content*, an empty one for what has none: its shape is checked later."""
    hooks: Any = content.get("hooks") if isinstance(content, dict) else None
    listed = cast("list[Any]", hooks) if isinstance(hooks, list) else []
    configs: list[Any] = [hook.get("config") if isinstance(hook, dict) else None for hook in listed]
    return [config if isinstance(config, dict) else {} for config in configs]


def _variable(name: str, where: str, env_file: Path | None) -> str:
    """Return what the environment has under *name*; raise ConfigError, with *where* it is wanted, when it is unset."""
    value = os.environ.get(name) or (dotenv_values(env_file).get(name) if env_file else None) or ""
    if not value.strip():
        raise ConfigError(f"{where}: there is no environment variable `{name}`; set it.")
    return value.strip()


def _checked(path: Path, made: Definition, channels: Channels) -> Definition:
    try:
        check_fields(made)
        check_hooks(made.hooks, channels)
        check_secrets(made.hooks, ())
        return channels.checked(made)
    except InvalidInput as error:
        raise ConfigError(f"{path}: {error}") from None


def _models(made: Definition) -> Iterator[tuple[str, str]]:
    """Give the models that *made* names, each with its field."""
    if made.model is not None:
        yield "model", made.model
    if made.controls.model is not None:
        yield "controls.model", made.controls.model
    for place, model in enumerate(made.fallback_models):
        yield f"fallback_models[{place}]", model
    if made.compaction.model is not None:
        yield "compaction.model", made.compaction.model


def _field_fault(error: msgspec.ValidationError, content: Any) -> str:
    """Return why *content* is no agent, in a sentence that begins with the field."""
    where, why = misfit(error, Definition)
    fields = Definition.__struct_fields__
    if not where and isinstance(content, dict):  # a required field may only be misspelt
        strange = [str(name) for name in cast("dict[Any, Any]", content) if name not in fields]
        missing = [name for name in fields if f"`{name}`" in why]
        if typo := next((name for name in strange if difflib.get_close_matches(name, missing)), None):
            return unknown_field(typo, fields)
    return f"`{where}`: {why}." if where else f"{why}."
