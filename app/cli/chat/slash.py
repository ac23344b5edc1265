"""The commands of a conversation: what a line that begins with a slash asks for."""

from dataclasses import dataclass
from typing import Literal

Name = Literal["/help", "/new", "/sessions", "/stop", "/quit"]
COMMANDS: dict[Name, str] = {
    "/help": "lists these",
    "/new": "starts a new conversation",
    "/sessions": "lists your latest conversations, to continue one",
    "/stop": "stops the answer, also one that waits",
    "/quit": "leaves",
}
BRIEF = "(/help lists the commands; Ctrl-C stops an answer, Ctrl-D leaves)"
KEYS = (
    ("//…", "sends a message that begins with a slash"),
    ("Enter", "sends; Alt-Enter or Ctrl-J begins a line, pasted lines are one message"),
    ("Up, Ctrl-R", "earlier messages, a search in them"),
    ("Ctrl-X Ctrl-E", "writes in $EDITOR"),
    ("Ctrl-C", "stops the answer; twice where none is being written leaves"),
    ("Ctrl-D", "leaves"),
)


@dataclass(frozen=True, slots=True)
class Slash:
    """A command; *rest* is what follows its name."""

    name: Name
    rest: str = ""


@dataclass(frozen=True, slots=True)
class UnknownSlash:
    """A line that looks like a command and is none."""

    name: str

    def __str__(self) -> str:
        return f"unknown command `{self.name}`; `/help` lists them, and `//` sends a message that begins with a slash"


def read_slash(line: str) -> Slash | UnknownSlash | None:
    """Return the command that *line* is; None for a message, also for one that begins with two slashes."""
    text = line.strip()
    if not text.startswith("/") or text.startswith("//"):
        return None
    word, *rest = text.split(maxsplit=1)
    for name in COMMANDS:
        if word == name:
            return Slash(name, *rest)
    return UnknownSlash(word)


def help_text(*, keys: bool) -> str:
    """Return what `/help` prints, with the *keys* of a terminal or those of plain lines."""
    rows = [*COMMANDS.items(), *(KEYS if keys else (KEYS[0], *KEYS[-2:]))]
    return "\n".join(f"  {name:<13} {words}" for name, words in rows)
