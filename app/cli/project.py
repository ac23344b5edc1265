"""`parley init` and `parley dev`: a project of one's own, made and served while it is worked on."""

from pathlib import Path
from typing import Annotated

import typer

from app.printer import say

Name = Annotated[str, typer.Argument(metavar="NAME", help="The new folder; `.` is the current one.")]
Sample = Annotated[bool, typer.Option("--sample", help="Add a small SQLite of customers and orders to try tools on.")]


def init(name: Name, *, sample: Sample = False) -> None:
    """Make a project: an agent, its tools, a page, tests, and what it takes to deploy them."""
    from app.project.create import create

    made = create(name, sample=sample, parent=Path(), version=installed())
    place = "This folder" if made.is_here else f"`{made.folder}`"
    say(f"{place} has a project; its {made.readme} leads on. Try:\n")
    say("\n".join(f"    {command}" for command in made.commands))


def dev() -> None:
    """Serve the project in this folder on this machine, and take up changes of agents and tools, until Ctrl-C."""
    from app import logs
    from app.dev.serve import dev as run
    from app.settings import load_settings

    logs.configure()
    settings = load_settings()
    logs.configure(settings.log)
    run(settings)


def installed() -> str:
    """Return the version of the installed Parley."""
    from importlib.metadata import version

    return version("parley")


def print_version(*, wanted: bool) -> None:
    """Print the version and end the command, when that is *wanted*."""
    if wanted:
        say(f"parley {installed()}")
        raise typer.Exit
