"""A document's operations as a YAML file of tools."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import msgspec
import yaml

from agent_core import ConfigError, InvalidInput
from agent_core.agents import ToolDefinition
from agent_core.net.targets import check_text
from agent_core.servers import PREFIX
from app.offline_kinds import OfflineKinds, taken_names
from app.openapi_import.document import Document, Json
from app.openapi_import.operation import NoTool, tool_of
from channels.text import one_line

HEADER = "# Made by `parley tools import`"
_DIGEST = "# digest: "
_MAX_NAME = 64


@dataclass(frozen=True, slots=True)
class Imported:
    """What was made of a document: *skipped* says of operations why there is no tool, *secrets* what to set.

    *left_out* says of operations which of their optional arguments a tool has not.
    """

    title: str
    tools: Sequence[ToolDefinition]
    skipped: Sequence[str]
    secrets: Mapping[str, str]
    left_out: Sequence[str]


def imported(document: Document, *, only: Collection[str], server: str | None, source: str) -> Imported:
    """Return the tools of the operations whose id, or one of whose tags, matches one of the globs *only* (none: all).

    *server* is the address of the API, *source* that of the document. Raises ConfigError.
    """
    tools: dict[str, ToolDefinition] = {}
    skipped: list[str] = []
    secrets: dict[str, str] = {}
    left_out: list[str] = []
    kinds, taken = OfflineKinds(check_text), taken_names()
    operations = list(document.operations())
    shorts = Counter(_plain(_without_route(_id(each), each[0], each[1])) for each in operations)
    for path, method, item, operation in operations:
        id = _id((path, method, item, operation))
        tags = operation.get("tags")
        short = _without_route(id, path, method)
        if only and not _matches(only, [id, short, *(map(str, tags) if isinstance(tags, list) else ())]):
            continue
        at = _server(document, item, operation, server, source)
        name = _name(short if shorts[_plain(short)] == 1 else id, {*tools, *taken})
        try:
            made = tool_of(document, name, path, method, item, operation, at)
            kinds.check(made.definition, {})
        except (NoTool, InvalidInput) as error:
            skipped.append(f"{method.upper()} {path}: {error}")
        else:
            tools[name] = made.definition
            secrets |= made.secrets
            left_out += [f"{method.upper()} {path}: {what}" for what in made.left_out]
    return Imported(document.title, list(tools.values()), skipped, secrets, left_out)


def written(result: Imported, source: str) -> str:
    """Return the tools as the text of a YAML file."""
    head = [f"{HEADER} from {source.splitlines()[0][:200]}: {len(result.tools)} tools of {_one_line(result.title)}."]
    head += [
        "# Read the descriptions before agents use them: they are the API's author's words, and models follow them."
    ]
    head += [f"# parley secrets set {name}  # {_one_line(what)}" for name, what in sorted(result.secrets.items())]
    items: list[Any] = [_without_defaults(each) for each in result.tools]
    body = yaml.dump(items, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=110)
    return _sealed("\n".join((*head, "", body)))


def _sealed(text: str) -> str:
    """Return *text* with its digest as the second line, by which an edit is seen."""
    first, _, rest = text.partition("\n")
    return f"{first}\n{_DIGEST}{sha256(text.encode()).hexdigest()}\n{rest}"


def changed_since(path: Path, result: Imported) -> str | None:
    """Return why the file at *path*, which an import wrote, is not to be replaced by *result*; None if it may be.

    Raises OSError.
    """
    text = path.read_text("utf-8")
    first, *rest = text.split("\n", 2)
    if len(rest) != 2 or _sealed(f"{first}\n{rest[1]}") != text:  # noqa: PLR2004 - its digest, and all the rest
        return "was edited since it was imported"
    there = {str(each["name"]) for each in yaml.safe_load(text)}
    now = {each.name for each in result.tools}
    lost, new = sorted(there - now), sorted(now - there)
    changes = [f"{what} {', '.join(names[:5])}" for what, names in (("without", lost), ("with", new)) if names]
    return f"has other tools than would be written now ({'; '.join(changes)})" if changes else None


class _Plain(yaml.SafeDumper):
    """Writes what occurs twice twice, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the library's signature
        return True


def file_name(title: str) -> str:
    """Return the name of the file for the API *title*."""
    return f"{re.sub(r'[^a-z0-9]+', '_', title.lower()).strip('_')[:60] or 'api'}.yaml"


def _without_defaults(definition: ToolDefinition) -> Json:
    """Return a definition without the fields that are as they are anyway."""
    fields: Json = msgspec.to_builtins(definition)
    usual: Json = msgspec.to_builtins(ToolDefinition(name=""))
    return {name: value for name, value in fields.items() if name == "kind" or value != usual[name]}


def _one_line(text: str) -> str:
    """Return *text* as a comment can hold it: after a line end it would be a tool of the document's own writing."""
    return one_line(text)[:100]


def _matches(globs: Collection[str], names: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for name in names for glob in globs)


def _id(operation: tuple[str, str, Json, Json]) -> str:
    """Return the id of an operation, or its method and path where it has none."""
    path, method, _, described = operation
    return str(described.get("operationId") or f"{method}_{path.strip('/')}")


def _without_route(id: str, path: str, method: str) -> str:
    """Return the *id* of an operation without its path and method, which FastAPI writes after a function's name."""
    route = re.sub(r"\W", "_", path)
    return id.removesuffix(f"{route}_{method}") or id


def _plain(id: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "_", id).strip("_")[:_MAX_NAME] or "operation"


def _name(id: str, taken: Collection[str]) -> str:
    plain = _plain(id)
    if plain.startswith(PREFIX):
        plain = f"api_{plain}"[:_MAX_NAME]
    name, n = plain, 2
    while name in taken:
        end = f"_{n}"
        name, n = plain[: _MAX_NAME - len(end)] + end, n + 1
    return name


def _server(document: Document, item: Json, operation: Json, server: str | None, source: str) -> str:
    """Return the address of the API; raises ConfigError when there is none."""
    if server is not None:
        return server
    servers = operation.get("servers") or item.get("servers") or document.root.get("servers") or [{}]
    first: Any = servers[0] if isinstance(servers, list) and isinstance(servers[0], dict) else {}
    url = str(first.get("url") or "/")
    for name, variable in (first.get("variables") or {}).items():
        url = url.replace(f"{{{name}}}", str(variable.get("default", "")))
    address = urljoin(source, url) if source.startswith(("http://", "https://")) else url
    if not urlsplit(address).netloc:
        raise ConfigError(f"The document names no server but `{url[:100]}`; give one with --server https://….")
    return address
