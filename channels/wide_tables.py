"""Tables of Markdown that no terminal has room for: they are shown as they were written; pure."""

from markdown_it.rules_block.state_block import StateBlock
from markdown_it.rules_block.table import table

MAX_COLUMNS = 20
"""Columns of a table at most: 120 columns of prose, six for each."""
MAX_CELLS = 4000
"""Cells of a table at most: empty ones need not be written, so a row of one sign can have all columns."""


def table_or_code(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001 - a rule's shape
    """Parse a table as markdown-it does, as code where it has more cells than a terminal shows."""
    if not table(state, start, end, True):
        return False
    if silent:
        return True
    columns = state.getLines(start + 1, start + 2, 0, False).strip().strip("|").count("|") + 1
    last = _last(state, start, end)
    if columns <= MAX_COLUMNS and columns * (last - start) <= MAX_CELLS:
        return table(state, start, end, False)
    token = state.push("code_block", "code", 0)
    token.content = state.getLines(start, last, state.blkIndent, False)
    token.map = [start, last]
    state.line = last
    return True


def _last(state: StateBlock, start: int, end: int) -> int:
    """Return the line after the table, which ends where markdown-it ends it."""
    rules = state.md.block.ruler.getRules("blockquote")
    line = start + 2
    while line < end:
        if state.sCount[line] < state.blkIndent or state.is_code_block(line) or state.isEmpty(line):
            break
        if any(rule(state, line, end, True) for rule in rules):
            break
        line += 1
    return line
