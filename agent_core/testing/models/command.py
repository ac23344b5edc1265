"""The command `parley-fake-models`: the fake models as a server of their own, until Ctrl-C."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from agent_core.testing.command import serve
from agent_core.testing.models.builtin import builtin
from agent_core.testing.models.rulefile import BadRules, by_rules, load
from agent_core.testing.models.server import FakeModels, Options

NAME = "parley-fake-models"
_FAILED = 2
_SETTINGS = """\
Fake models at {url}; Ctrl-C ends them. Any key is good but `bad-key`.

  ANTHROPIC_BASE_URL={url}
  ANTHROPIC_API_KEY=fake
  OPENAI_BASE_URL={url}/v1
  OPENAI_API_KEY=fake
  PARLEY_MODEL=anthropic:claude-sonnet-5-5   (or openai:gpt-6.1-sol, openai-compatible:any)

"""


def _rate(rate: float) -> float:
    if not 0 <= rate < float("inf"):
        raise typer.BadParameter(f"a rate is a number from 0 on, not {rate:g}")
    return rate


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command with *arguments*, else those of the process; raises SystemExit with its exit code."""
    command = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    command.command()(fake_models)
    command(arguments, prog_name=NAME)


def fake_models(
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Listen on this port; 0 takes a free one.")] = 4010,
    rate: Annotated[float, typer.Option(callback=_rate, help="Deltas a second; 0 is flat out.")] = 50.0,
    script: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Rules in YAML; without them the models echo.")
    ] = None,
    split: Annotated[int, typer.Option(min=0, metavar="BYTES", help="Write streams in pieces of this size.")] = 0,
    lenient: Annotated[bool, typer.Option("--lenient", help="Check neither requests nor thinking.")] = False,
    fast: Annotated[bool, typer.Option("--fast", help="Check nothing and count no cache: for measurements.")] = False,
) -> None:
    """Serve fake models on 127.0.0.1 until Ctrl-C."""
    try:
        rules = by_rules(load(script), builtin) if script else builtin
    except BadRules as error:
        sys.stderr.write(f"{NAME}: {error}\n")
        raise typer.Exit(_FAILED) from None
    check = not (fast or lenient)
    options = Options(split=split)
    fake = FakeModels(rules, port=port, rate=rate, record=False, check=check, cache=not fast, options=options)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(NAME, fake, lambda fake: _SETTINGS.format(url=fake.url)))
