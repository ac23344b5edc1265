"""Resources: what a tool is about, by which the router groups tools. Pure.

The rule, first match: the mark of the tool's own server; the noun in its name; its MCP server; its name.
"""

import re
from functools import lru_cache

from agent_core.domain.agents import ToolSpec
from agent_core.domain.mcp import PREFIX


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
