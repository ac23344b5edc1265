"""docs/models.md against the code: the table of failures, the numbers, the names."""

import re
from pathlib import Path

from agent_core.agent.strategy import (
    MAX_CONTINUATIONS,
    MAX_PAUSE,
    MAX_RETRIES,
    MAX_WAIT_BEFORE_FALLBACK,
    NO_FALLBACK,
    backoff,
)
from agent_core.controls import Effort
from agent_core.messages import KINDS, explanation
from agent_core.providers.base import table
from agent_core.providers.failing import RETRYABLE, failed
from app.checks import NOTICE_DAYS
from tests.cases import for_each

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text("utf-8")
REPAIRED = {"stale_reasoning", "controls_refused", "content_refused", "file_refused"}
WORDS = {3: "three", 120: "two minutes"}


def rows() -> dict[str, list[str]]:
    """Return the cells of the table of failures by kind."""
    _, _, part = PAGE.partition("| kind |")
    found = [line for line in part.partition("\n\n")[0].splitlines() if line.startswith("| `")]
    return {cells[0].strip("`"): cells[1:] for line in found if (cells := line.strip("| ").split(" | "))}


def test_every_kind_of_failure_has_its_row():
    """The page lists all kinds of failures, in the code's order, and no others."""
    assert tuple(rows()) == KINDS


@for_each("kind", KINDS)
def test_a_row_says_what_happens(kind):
    """Whether a call is repeated, whether another model takes over, and both texts are as the page has them."""
    _, again, moves, person, operator = rows()[kind]
    assert again == ("yes" if kind in RETRYABLE else "once, repaired" if kind in REPAIRED else "no")
    assert moves == ("no" if kind in NO_FALLBACK else "yes")
    assert person == explanation(kind)
    assert failed(kind, "It said so.").message == f"It said so. {operator}"


def test_the_numbers_are_those_of_the_code():
    """Tries, pauses and days on the page are the constants."""
    assert f"tried up to {WORDS[MAX_RETRIES]} times" in PAGE
    assert f"(`retry-after`) gets it, up to {WORDS[int(MAX_PAUSE)]}" in PAGE
    assert f"if the pause is at most {MAX_WAIT_BEFORE_FALLBACK:g} s" in PAGE
    assert re.search(rf"continued, up to\s+{WORDS[MAX_CONTINUATIONS]} times", PAGE)
    assert f"ends within {NOTICE_DAYS} days" in PAGE
    longest = [0.5, 1, 2]
    assert "about 0.5, 1 and 2 s, four\ntimes that when it is overloaded" in PAGE
    for n, seconds in enumerate(longest, 1):
        assert 0.75 * seconds <= backoff("run_1", n) <= seconds
        assert 3 * seconds <= backoff("run_1", n, longer=True) <= 4 * seconds


def test_the_levels_and_models_exist():
    """Every level of effort is named, and the models of the examples are in the table."""
    assert [level for level in Effort.__args__ if f"`{level}`" not in PAGE] == []
    named = set(re.findall(r"\b((?:anthropic|openai):[a-z][\w.-]+)", PAGE))
    assert named
    assert named <= set(table().models)
