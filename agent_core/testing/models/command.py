"""The command `parley-fake-models`: the fake models as a server of their own, until Ctrl-C."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import uvloop

from agent_core.testing.command import port, serve
from agent_core.testing.models.builtin import builtin
from agent_core.testing.models.rulefile import BadRules, by_rules, load
from agent_core.testing.models.server import FakeModels, Options

PORT = 4010
RATE = 50.0
_FAILED = 2
_SETTINGS = """\
Fake models at {url}; Ctrl-C ends them. Any key is good but `bad-key`.

  ANTHROPIC_BASE_URL={url}
  ANTHROPIC_API_KEY=fake
  OPENAI_BASE_URL={url}/v1
  OPENAI_API_KEY=fake
  PARLEY_MODEL=anthropic:claude-sonnet-5-5   (or openai:gpt-6.1-sol, openai-compatible:any)

"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve fake models on 127.0.0.1."""
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        script = by_rules(load(given.script), builtin) if given.script else builtin
    except BadRules as error:
        sys.stderr.write(f"parley-fake-models: {error}\n")
        raise SystemExit(_FAILED) from None
    fast = given.fast
    options = Options(split=given.split)
    fake = FakeModels(
        script,
        port=given.port,
        rate=given.rate,
        record=False,
        check=not (fast or given.lenient),
        cache=not fast,
        options=options,
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(parser.prog, fake, lambda fake: _SETTINGS.format(url=fake.url)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="parley-fake-models", description=main.__doc__)
    parser.add_argument("--port", type=port, default=PORT, help=f"0 takes a free one (default {PORT})")
    parser.add_argument("--rate", type=_rate, default=RATE, help=f"deltas a second, 0 is flat out (default {RATE:g})")
    parser.add_argument("--script", type=Path, metavar="FILE", help="rules in YAML; without them the models echo")
    parser.add_argument("--split", type=_size, default=0, metavar="BYTES", help="write streams in pieces of this size")
    parser.add_argument("--lenient", action="store_true", help="check neither requests nor thinking")
    parser.add_argument("--fast", action="store_true", help="check nothing and count no cache: for measurements")
    return parser


def _rate(text: str) -> float:
    rate = float(text)
    if not 0 <= rate < float("inf"):
        raise argparse.ArgumentTypeError(f"a rate is a number from 0 on, not {text}")
    return rate


def _size(text: str) -> int:
    size = int(text)
    if size < 0:
        raise argparse.ArgumentTypeError(f"a size is a number of bytes, not {text}")
    return size
