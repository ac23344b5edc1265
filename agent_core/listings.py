"""What MCP servers list: their tools as agents get them, and what is kept of a listing."""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Literal, cast

import msgspec
from msgspec.structs import replace

from agent_core.agents import ToolSpec
from agent_core.errors import Fault
from agent_core.messages import visible
from agent_core.schemas import fitted, is_deep, schema_problem
from agent_core.servers import (
    PREFIX,
    LeftOut,
    LoginObject,
    McpAnnotations,
    McpListing,
    McpOAuth,
    McpServer,
    McpTool,
    OnChange,
)


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


VERBS = _set(
    "accept add append apply approve archive assign attach batch book browse bulk call cancel change check "
    "clear clone close comment compare complete compute configure confirm connect convert copy count create "
    "deactivate delete deny deploy describe detach disable dismiss download drop duplicate edit enable "
    "estimate execute export fetch fill find fork generate get import index insert inspect invite invoke join "
    "label leave link list load lock lookup make mark merge modify move open patch pause pin ping place post "
    "preview publish pull push put query read refresh refund register reject release reload remove rename "
    "reopen replace reply request reserve reset resolve restart restore resume retrieve return revert review "
    "revoke run save scan schedule search select send set share show sort star start stop submit subscribe "
    "summarize sync tag test track transfer translate trigger unarchive unassign unlink unlock unpin "
    "unsubscribe update upload upsert validate verify view watch write"
)
_CORE = _set("add create delete find get list remove search set update")
_ALSO_NOUNS = _set(
    "book call check comment copy count edit export fork index invite join label link list load lock make mark pause "
    "pin place post preview query release reply request return review run save schedule send share show sort star "
    "start stop tag test track transfer view watch"
)
"""Verbs that are nouns before one of `_CORE`: `comment_create`."""
_ENDS = _set("and as at by for from in into of on to using via with within")
"""Words after the noun: `get_order_by_id`."""
_QUALIFIERS = _set(
    "a active all an any archived closed current last latest many multiple my new next one open pending recent single "
    "the"
)
_FIRST = _set("batch bulk multi")
_ASPECTS = _set("batch bulk count data detail details history info information list status summary")
"""Words after a noun that say what of it is meant: `get_order_status`."""
_IRREGULAR = {"children": "child", "indices": "index", "men": "man", "people": "person", "statuses": "status"}
_UNCHANGED = ("ss", "us", "is", "news", "series")
_SIBILANTS = ("sses", "shes", "ches", "xes", "zzes")
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")


def resource_of(spec: ToolSpec) -> str:
    """Return the resource of a tool, in the form of `canonical`."""
    if spec.resource and (mark := canonical(spec.resource)):
        return mark
    return _named(spec.name)


@lru_cache(maxsize=2_048)
def _named(name: str) -> str:
    """Return the resource that the *name* of a tool has: its noun, else its server, else itself."""
    server, tool = _split(name)
    return noun_of(tool) or canonical(server) or canonical(tool) or name


@lru_cache(maxsize=2_048)
def canonical(name: str) -> str:
    """Return the *name* of a resource in the form in which they are compared: `SalesOrders` is `sales_order`."""
    return "_".join(_singular(words_of(name)))


def words_of(name: str) -> list[str]:
    """Return the words of an identifier, in lower case; one that has no Latin letters or digits is one word."""
    return [word.lower() for word in _WORD.findall(name)] or name.lower().split()


def singular(word: str) -> str:
    """Return an English *word* without its plural, by the usual endings."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 3 or not word.endswith("s") or word.endswith(_UNCHANGED):  # noqa: PLR2004 - `gas`, `api`
        return word
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-2] if word.endswith(_SIBILANTS) else word[:-1]


def _split(name: str) -> tuple[str, str]:
    """Return the server in the *name* of a tool of an MCP server, empty for any other tool, and the rest."""
    if not name.startswith(PREFIX):
        return "", name
    server, _, tool = name[len(PREFIX) :].partition("__")
    return (server, tool) if tool else ("", name)


def noun_of(tool: str) -> str:
    """Return the noun of a tool's name: after the verb that begins it, before the one that ends it, after another.

    Empty for a name without a verb, or without more than one.
    """
    words = words_of(tool)
    words = words[1:] if len(words) > 1 and words[0] in _FIRST and words[1] in VERBS else words
    if len(words) > 1 and words[0] in _ALSO_NOUNS and words[-1] in _CORE:
        noun = words[:-1]
    elif words and words[0] in VERBS:
        noun = _after(words)
    elif words and words[-1] in VERBS:
        noun = words[:-1]
    elif inner := next((index for index, word in enumerate(words) if word in VERBS), 0):
        noun = _after(words[inner:])  # `github_list_issues`
    else:
        return ""
    while len(noun) > 1 and noun[-1] in _ASPECTS:
        noun = noun[:-1]
    return "_".join(_singular(noun))


def _after(words: list[str]) -> list[str]:
    """Return the words of the noun after the verb, which is the first of *words*."""
    rest = words[1:]
    end = next((index for index, word in enumerate(rest) if index and word in _ENDS), len(rest))
    return [word for word in rest[:end] if word not in _QUALIFIERS and word not in _ENDS]


def _singular(words: list[str]) -> list[str]:
    """Return *words* with the last one in the singular."""
    return [*words[:-1], singular(words[-1])] if words else []


MAX_NAME = 64
"""Characters of a tool's name that every provider takes."""
MAX_DESCRIPTION = 4_000
MAX_TITLE = 200
MAX_INSTRUCTIONS = 10_000
MAX_TOOLS = 2_000
"""Tools that are taken of one server."""
MAX_OWN_NAME = 128
"""Characters of a name at its server, as the specification has it."""
_HASH = 16
"""Digits of a hash in a name: few enough to be read, enough that a server finds no two tools with the same one."""
_OTHER = re.compile(r"[^A-Za-z0-9_-]")
_LIKE_MARKED = re.compile(rf"_[0-9a-f]{{{_HASH},}}$")
_CUT = " […]"
ChangeKind = Literal["added", "changed", "removed"]
Accepted = tuple[McpTool, ...]


class McpChange(msgspec.Struct, frozen=True, kw_only=True):
    """How a server's tool, by its own name, differs from what was accepted; *before* and *now* are what there is."""

    tool: str
    change: ChangeKind
    before: McpTool | None = None
    now: McpTool | None = None


class KeptListing(msgspec.Struct, frozen=True):
    """A listing as it is kept, and the tools of it that cannot be offered."""

    listing: McpListing
    left_out: tuple[LeftOut, ...] = ()


def cleaned(listing: McpListing, scrub: Callable[[str], str] = str) -> KeptListing:
    """Return *listing* as it is kept: bounded, sorted by name, without hidden characters, its texts *scrubbed*.

    A tool is left out whose schema cannot be used, or which hides characters where they cannot be taken out: in its
    name, and in what its arguments are called. Checking schemas takes up to half a second each.
    """

    def text(value: str | None, limit: int) -> str | None:
        return None if value is None else _bounded(visible(scrub(value)), limit)

    tools: dict[str, McpTool] = {}
    left_out = [LeftOut(text(x.tool, MAX_OWN_NAME) or "", visible(scrub(x.why))) for x in listing.left_out]
    for tool in sorted(listing.tools, key=lambda each: each.name):
        name = _bounded(visible(scrub(tool.name)), MAX_OWN_NAME)
        if why := "" if len(tools) < MAX_TOOLS else f"a server gives at most {MAX_TOOLS} tools.":
            left_out.append(LeftOut(name, why))
            break
        plain = replace(
            tool,
            description=text(tool.description, MAX_DESCRIPTION) or "",
            title=text(tool.title, MAX_TITLE),
            resource=text(tool.resource, MAX_TITLE),
            parameters=_plain_schema(tool.parameters, scrub),
        )
        if why := _unfit(plain, tools):
            left_out.append(LeftOut(name, why))
        else:
            tools[tool.name] = plain
    cleaned = replace(
        listing,
        left_out=(),
        tools=tuple(tools.values()),
        era=text(listing.era, MAX_TITLE) or "",
        title=text(listing.title, MAX_TITLE),
        version=text(listing.version, MAX_TITLE),
        instructions=text(listing.instructions, MAX_INSTRUCTIONS),
    )
    return KeptListing(cleaned, tuple(left_out))


def pin(tool: McpTool) -> str:
    """Return the hash of what the model and the policy read of *tool*; the order of a schema's keys does not count."""
    contents = [tool.description, tool.parameters, tool.annotations, tool.title]
    return hashlib.sha256(msgspec.json.encode(contents, order="deterministic")).hexdigest()[:32]


def digest_of(listing: McpListing) -> str:
    """Return the hash of all tools of *listing*, by which an operator says what they have seen."""
    pins = [[tool.name, pin(tool)] for tool in listing.tools]
    return hashlib.sha256(msgspec.json.encode(pins)).hexdigest()[:32]


def accepted_after(server: McpServer, listing: McpListing, accepted: Accepted | None) -> Accepted:
    """Return what is accepted once *server* has said *listing*: all of it the first time, and where it is adopted.

    A tool that is gone stays accepted: it may come back as it was.
    """
    return listing.tools if accepted is None or server.on_change == "adopt" else accepted


def taken(server: McpServer, tool: str) -> bool:
    """Return whether *server* gives its *tool*, by `allow` and `deny`."""
    return any(fnmatchcase(tool, glob) for glob in server.allow) and not any(
        fnmatchcase(tool, glob) for glob in server.deny
    )


def offered_of(server: McpServer, listing: McpListing | None, accepted: Accepted | None) -> Sequence[McpTool]:
    """Return the tools of *server* that agents may use, as they were accepted; those that are gone are not there."""
    there = {tool.name for tool in listing.tools} if listing is not None else set[str]()
    return [tool for tool in accepted or () if tool.name in there and taken(server, tool.name)]


def changes_of(server: McpServer, listing: McpListing | None, accepted: Accepted | None) -> tuple[McpChange, ...]:
    """Return how what *server* says now differs from what was accepted, of the tools that it gives; sorted by name."""
    if listing is None or accepted is None:
        return ()
    before, now = {tool.name: tool for tool in accepted}, {tool.name: tool for tool in listing.tools}
    changes: list[McpChange] = []
    for name in sorted(filter(lambda each: taken(server, each), before.keys() | now.keys())):
        old, new = before.get(name), now.get(name)
        if old is None or new is None:
            changes.append(McpChange(tool=name, change="added" if old is None else "removed", before=old, now=new))
        elif old != new and pin(old) != pin(new):
            changes.append(McpChange(tool=name, change="changed", before=old, now=new))
    return tuple(changes)


def is_held(changes: Iterable[McpChange]) -> bool:
    """Return whether *changes* wait for an operator: a tool that is only gone does not."""
    return any(each.change != "removed" for each in changes)


def names_of(servers: Sequence[tuple[str, Sequence[str]]]) -> Mapping[tuple[str, str], str]:
    """Return the name of each tool, `mcp__{server}__{tool}`, by server and the server's own name of it.

    *servers* are names of servers, each with its tools. A name has at most 64 letters, digits, `_` and `-`. One that
    another tool could come to have as well ends in a hash from the start, so that it depends on no other tool: what was
    approved under a name is not another tool later, whatever a server adds or takes away.
    """
    names: dict[tuple[str, str], str] = {}
    used: set[str] = set()
    for server, tools in servers:
        for tool in sorted(tools):
            whole, length = f"{PREFIX}{server}__{_OTHER.sub('_', tool)}", _HASH
            name = _marked(server, tool, whole, length) if _is_shared(server, tool, whole) else whole
            while name in used:  # two hashes that are equal
                length += 1
                name = _marked(server, tool, whole, length)
            used.add(name)
            names[server, tool] = name
    return names


def _is_shared(server: str, tool: str, whole: str) -> bool:
    """Return whether another tool could have the name *whole* too.

    It could if that is changed, cut or ends like a hash, and if the server's name has `__` or ends in `_`: then it may
    be that of another server with a longer tool's name.
    """
    return (
        len(whole) > MAX_NAME
        or _OTHER.search(tool) is not None
        or _LIKE_MARKED.search(whole) is not None
        or "__" in server
        or server.endswith("_")
    )


def _marked(server: str, tool: str, whole: str, length: int) -> str:
    mark = hashlib.sha256(f"{server}\0{tool}".encode()).hexdigest()[:length]
    return f"{whole[: MAX_NAME - length - 1]}_{mark}"


def spec_of(server: McpServer, tool: McpTool, name: str) -> ToolSpec:
    """Return *tool* as agents see it under *name*; what it says of its effect counts only of a trusted server.

    Where it does not count a call is a write that nothing repeats. Its parameters are as vendors of models take them.
    """
    annotations = tool.annotations if server.trusted else None
    reads = annotations is not None and annotations.read_only is True
    return ToolSpec(
        name=name,
        description=tool.description,
        parameters=fitted(tool.parameters).offered,
        effect="read" if reads else "write",
        idempotent=annotations is not None and annotations.idempotent is True,
        concurrency_safe=reads,
        timeout=server.timeout_s,
        title=tool.title,
        source="mcp",
        untrusted=server.untrusted,
        resource=tool.resource or noun_of(tool.name) or server.name,
    )


def strings_of(value: object, change: Callable[[str], str]) -> Any:
    """Return a JSON *value* with each text in it, but no key, replaced by what *change* makes of it."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: strings_of(each, change) for key, each in cast("dict[str, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [strings_of(each, change) for each in cast("list[object]", value)]
    return value


def _plain_schema(schema: dict[str, Any], scrub: Callable[[str], str]) -> dict[str, Any]:
    """Return *schema* with plain texts; one that is too deep to walk stays as it is, and is left out later."""
    if is_deep(schema):
        return schema
    plain = cast("dict[str, Any]", strings_of(schema, lambda each: visible(scrub(each))))
    return plain if plain.get("type") == "object" or "type" in plain else {"type": "object", **plain}


def _unfit(tool: McpTool, accepted: Mapping[str, McpTool]) -> str:
    """Return why no model could be offered *tool*, empty when it can; *accepted* are those before it."""
    if not tool.name or len(tool.name) > MAX_OWN_NAME or visible(tool.name) != tool.name:
        return f"its name has no visible characters, hidden ones, or more than {MAX_OWN_NAME}."
    if tool.name in accepted:
        return "its name is there twice."
    if tool.parameters.get("type") != "object":
        return 'its parameters are no JSON Schema with `"type": "object"`.'
    if fault := _schema_fault(tool.parameters):
        return f"its parameters are no JSON Schema that can be used: {visible(str(fault))[:300]}"
    if any(visible(key) != key for key in _keys_of(tool.parameters)):
        return "its parameters have hidden characters in their names."
    return ""


def _schema_fault(parameters: dict[str, Any]) -> Fault | None:
    if is_deep(parameters):
        return schema_problem(parameters)
    fit = fitted(parameters)
    return schema_problem(fit.whole) or (None if fit.offered is fit.whole else schema_problem(fit.offered))


def _keys_of(value: object) -> Iterable[str]:
    if isinstance(value, dict):
        for key, each in cast("dict[str, object]", value).items():
            yield key
            yield from _keys_of(each)
    elif isinstance(value, (list, tuple)):
        for each in cast("list[object]", value):
            yield from _keys_of(each)


def _bounded(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - len(_CUT)] + _CUT


ServerStatus = Literal["new", "ok", "failing", "changed", "disabled"]


class ServedToolObject(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that agents may use, under its *name* for agents and as its server calls it, *tool*.

    *annotations* are what the server says of it; they count in *effect* and *idempotent* if the server is trusted.
    """

    name: str
    tool: str
    title: str | None
    description: str
    effect: Literal["read", "write"]
    idempotent: bool
    parameters: dict[str, Any]
    annotations: McpAnnotations | None = None


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says of itself; no model reads it."""

    title: str | None
    version: str | None
    era: str
    instructions: str | None


class McpServerObject(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP server: its definition, private texts hidden, and what is known of it.

    *tools* are those that agents may use, *changes* how what it says now differs from them: with `on_change: hold` a
    changed or added one waits until *digest* is accepted. *left_out* are tools that no model could be offered.
    *listed_at* is the last discovery that succeeded, *due_at* the next one. *error* says why the last one failed.
    *login* is how an operator's login there is, None where there is none and none is known to be needed.
    """

    id: str
    name: str
    transport: Literal["http", "stdio"]
    url: str | None
    command: str | None
    args: tuple[str, ...]
    env: dict[str, str]
    cwd: str | None
    headers: dict[str, str]
    oauth: McpOAuth | None
    allow: tuple[str, ...]
    deny: tuple[str, ...]
    trusted: bool
    untrusted: bool
    on_change: OnChange
    context: tuple[str, ...]
    timeout_s: float
    enabled: bool
    source: Literal["file", "api"]
    status: ServerStatus
    error: str | None
    login: LoginObject | None
    info: ServerInfo | None
    tools: tuple[ServedToolObject, ...]
    changes: tuple[McpChange, ...]
    left_out: tuple[LeftOut, ...]
    digest: str | None
    listed_at: int | None
    failed_at: int | None
    due_at: int | None
    created_at: int
    updated_at: int
