"""Tools of installed packages, which name them as entry points of the group `parley.tools`."""

from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import cast

from agent_core.tools.functions import FunctionTool
from app.own_tools.folder import OwnTool, tools_in
from app.own_tools.problems import ToolProblem, explanation, is_ctrl_c

GROUP = "parley.tools"


@dataclass(frozen=True, slots=True)
class PackagedTools:
    """The tools of one entry point, named *place* in messages."""

    place: str
    tools: tuple[OwnTool, ...]


def load_packages() -> tuple[list[PackagedTools], list[ToolProblem]]:
    """Load every entry point of the group: a tool, a list of tools, or a module that holds some."""
    loaded, problems = list[PackagedTools](), list[ToolProblem]()
    for point in sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value)):
        place = _place(point)
        try:
            value: object = point.load()
        except BaseException as error:
            if is_ctrl_c(error):
                raise
            problems.append(ToolProblem(place, explanation(error)))
            continue
        tools = _tools_of(value)
        if tools:
            loaded.append(PackagedTools(place, tools))
        else:
            text = f"`{point.value}` is no tool, no list of tools and no module that holds some; see `parley.tool`."
            problems.append(ToolProblem(place, text))
    return loaded, problems


def _tools_of(value: object) -> tuple[OwnTool, ...]:
    if isinstance(value, FunctionTool):
        return (cast("OwnTool", value),)
    if isinstance(value, ModuleType):
        return tools_in(value)
    if isinstance(value, list | tuple) and all(isinstance(each, FunctionTool) for each in value):
        return tuple(cast("list[OwnTool]", value))
    return ()


def _place(point: EntryPoint) -> str:
    package = f" of `{point.dist.name}`" if point.dist is not None else ""
    return f"entry point `{point.name}`{package}"
