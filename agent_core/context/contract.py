"""The operating contract: what the core says to a model after the instructions, for the tools that the prompt has."""

from collections.abc import Collection, Iterator

_TABLES = "show rows with `render_table`, never as a markdown table or aligned text"
_CHARTS = "show trends and comparisons of numbers with `render_chart`"
_SEEN = "The person sees what it shows: do not repeat it, say what it means."
_HANDLES = (
    "A result that ends in a line such as `[result r4: 214 rows x 6 columns: …]` is kept whole: pass "
    '`from_result: "r4"` and copy no rows.'
)


def prompt_of(instructions: str, tools: Collection[str]) -> str:
    """Return *instructions* followed by the lines of the contract for *tools*, by name; most tools have none."""
    return "\n\n".join(filter(None, (instructions, " ".join(_lines(tools)))))


def _lines(tools: Collection[str]) -> Iterator[str]:
    shows = [line for name, line in (("render_table", _TABLES), ("render_chart", _CHARTS)) if name in tools]
    if shows:
        said = "; ".join(shows)
        yield f"{said[0].upper()}{said[1:]}. {_SEEN}"
        yield _HANDLES
