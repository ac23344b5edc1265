"""What the doctor reports on own tools: where they are looked for, which there are, and what is broken."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from agent_core import InvalidInput
from agent_core.domain.tools import secrets_in
from agent_core.net.targets import TargetGuard
from agent_core.tools.base import Tool
from agent_core.tools.builtin import BUILTIN
from app.doctor.findings import Finding
from app.offline_kinds import OfflineKinds
from app.own_tools.toolset import UNREAD_REMEDY, OwnTools, shipped_names
from app.settings import Settings
from app.storage.servers import stored_secrets
from app.tool_files import FiledTool, read_tools


def own_tools(own: OwnTools) -> Iterator[Finding]:
    """Report the *own* tools, which were loaded as a server loads them."""
    for problem in own.problems:
        yield Finding("fail", "tools", str(problem))
    if not own.folder.is_dir():
        yield Finding("ok", "tools", f"there is no folder `{own.folder}`: no tools of your own (PARLEY_TOOLS)")
    for path in own.unread:
        yield Finding("warn", "tools", f"{path}: a folder, whose Python files are not loaded", UNREAD_REMEDY)
    by_place = defaultdict[str, list[str]](list)
    for name, place in own.places.items():
        by_place[place.rpartition(":")[0] or place].append(f"`{name}`")
    for place, names in by_place.items():
        yield Finding("ok", "tools", f"{place}: {', '.join(sorted(names))}")
    for stem, count in own.files.items():
        if count == 0 and not stem.startswith("_"):
            path = own.folder / f"{stem}.py"
            remedy = "decorate a function with `@tool`, or begin the name of a file of helpers with `_`"
            yield Finding("warn", "tools", f"{path}: holds no tool", remedy)


def tool_files(settings: Settings, own: OwnTools) -> Iterator[Finding]:
    """Report the YAML files of tools as a server with the *own* tools takes them, and the secrets that they lack."""
    files, secrets = read_tools(settings.tools), stored_secrets(settings)
    for problem in files.broken.values():
        yield Finding("fail", "tools", problem)
    kinds = OfflineKinds(TargetGuard.of(settings.fetch_allow).check)
    tools = {**{tool.spec.name: tool for tool in BUILTIN}, **own.loaded}
    for path, filed in files.tools.items():
        faults = [fault for each in filed if (fault := _fault(each, kinds, tools, own)) is not None]
        for fault in faults:
            yield Finding("fail", "tools", fault)
        for each in filed:
            wanted = secrets_in([each.definition.config, each.definition.preset])
            if missing := sorted(wanted - set(wanted if secrets is None else secrets)):
                text = f"{each.place}: `{each.definition.name}`: no secret {', '.join(missing)}"
                yield Finding("fail", "tools", text, "store it with `parley secrets set`")
        if not faults:
            names = ", ".join(f"`{each.definition.name}`" for each in filed)
            yield Finding("ok", "tools", f"{path}: {names}")


def _fault(filed: FiledTool, kinds: OfflineKinds, tools: Mapping[str, Tool], own: OwnTools) -> str | None:
    """Return why a server with *tools* would refuse what was *filed*; None when it would not."""
    name = filed.definition.name
    if name in {*tools, *shipped_names()}:
        place = own.places.get(name)
        where = f"is defined at {place}" if place else "ships with Parley"
        return filed.fault(InvalidInput("name", f"the tool `{name}` {where}; choose another name."))
    try:
        kinds.check(filed.definition, tools)
    except InvalidInput as error:
        return filed.fault(error)
    return None
